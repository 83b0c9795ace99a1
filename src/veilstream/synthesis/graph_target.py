"""Tables around a declared target: the dependence of one attribute on all others comes first."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Final

from veilstream.synthesis.graph_choice import Chosen, Selection
from veilstream.synthesis.junction import Scope

SHARE_OF_TARGET: Final = Fraction(1, 2)
"""Of what is for tables, for those with the target."""
NOISE_OF_TARGET: Final = 0.5
"""All attributes are measured beside the target if noise changes their tables by at most this share of the rows:
denoising takes most of it out."""


def chosen_around(selection: Selection, target: int) -> Chosen:
    """Tables of the target and each other attribute, then what a selection finds worst predicted.

    Half of the share is for tables with the target. Where they can be read, all of them are measured and nothing is
    chosen; else as many as can be, chosen by the exponential mechanism among them and "none".
    """
    graph = selection.graph([])
    sizes, budget = graph.sizes, selection.budget
    star: list[Scope] = [(min(axis, target), max(axis, target)) for axis in range(len(sizes)) if axis != target]
    cells = [sizes[j] * sizes[k] for j, k in star]
    share = selection.share * SHARE_OF_TARGET
    bound = NOISE_OF_TARGET * max(selection.start.margins.total, 1.0) / (sum(cells) / len(cells))
    most = len(star)
    while most > 1 and budget.noise_of(share / most) > bound:
        most -= 1
    made = 0
    if most < len(star):
        most = min(most, selection.count)
        chooser = replace(selection, share=share / most * selection.count)
        predicted = graph.law.pairs()
        chosen: list[Scope] = []
        while star and len(chosen) < most:
            made += 1
            pair = chooser.choose(graph, star, predicted)
            if pair is None:
                break
            chosen.append(pair)
            star.remove(pair)
        star = chosen
    labels, start = selection.start.labels, selection.start
    tables = budget.tables(selection.rows, labels, star, share, selection.meter) if star else []
    left = selection.share - share if star else selection.share
    count = selection.count - made
    epsilon = selection.epsilon * count / selection.count
    if not count:
        return Chosen(tables, left, epsilon)
    start = replace(start, tables=[*start.tables, *tables])
    rest = replace(selection, start=start, count=count, epsilon=epsilon, share=left, target=target).chosen()
    return replace(rest, tables=[*tables, *rest.tables])
