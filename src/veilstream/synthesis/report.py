"""A page about a synthetic table: which attributes and pairs to trust, margins, ranges. Everything on it is public."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from veilstream.release.sinks import replacing
from veilstream.synthesis.checking import MOST_PAIRS
from veilstream.synthesis.crowding import crowded_bins
from veilstream.synthesis.graph_model import GraphModel
from veilstream.synthesis.kinds import TableModel
from veilstream.synthesis.model import CopulaModel
from veilstream.synthesis.quality import Errors
from veilstream.synthesis.report_pictures import (
    draw_correlations,
    draw_map,
    draw_margins,
    draw_pairs,
    picture,
)
from veilstream.synthesis.trust import Trust

FEWEST_NAMED: Final = 6
MOST_NAMED: Final = 40
"""Attributes from which on a map of all pairs says more than their list, and up to which it has room for names."""
_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>body {{ font: 16px/1.5 system-ui, sans-serif; color: #22313f; max-width: 62rem; margin: 2rem auto }}
body {{ padding: 0 1rem }}
table {{ border-collapse: collapse }} td, th {{ padding: .2rem 1.2rem .2rem 0; text-align: left; vertical-align: top }}
th {{ font-weight: 600 }} td.number {{ font-variant-numeric: tabular-nums; white-space: nowrap }}
.summary {{ font-size: 1.15rem; border-left: .3rem solid #0072b2; padding-left: 1rem }}
.note {{ color: #56606a }} img {{ max-width: 100% }}
</style></head><body><h1>{title}</h1>
<p class="summary">{summary}</p>
<p>{introduction}</p>
<table>{facts}</table>
{trust}
<h2>Single attributes</h2><p>The published counts (line) and the drawn rows (area), as shares of all rows. {spiked}</p>
{margins}
<table>{singles}</table>
{correlations}
<h2>Random range counts</h2><p>{errors_note}</p><table>{errors}</table>
</body></html>
"""
_WORDS: Final = """<h2>Pairs of attributes</h2>
<p>All is total variation: the share of the rows that would have to be moved. The dot is the error of independent
attributes, so what there is to win. The bar is the error of the drawn rows by noise and sampling, with 95 %. Both hold
<em>if the model were the truth</em>: what the model leaves out is not in them. {measured} A pair can be used where its
error lies well to the left of its dot.</p>"""


def write_report(
    path: str | Path,
    model: TableModel,
    drawn: list[NDArray[np.int64]],
    *,
    introduction: str,
    expected: Errors,
    measured: Errors | None = None,
    trust: Sequence[Trust] = (),
) -> Path:
    """Write the page, pictures included, to one HTML file."""
    singles, pairs = ([each for each in trust if len(each.scope) == size] for size in (1, 2))
    facts = {
        "Rows of the table": f"{model.rows:,} (noisy count)",
        "Rows drawn for this page": f"{drawn[0].size:,}",
        "Spent on the model": f"epsilon {model.spent}",
        "Spent on this page": f"epsilon {measured.epsilon}" if measured else "nothing",
        **_structure(model),
    }
    text = _PAGE.format(
        title="Synthetic table",
        summary=html.escape(_summary(pairs)),
        introduction=html.escape(introduction),
        facts="".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in facts.items()),
        trust=_section_of_pairs(model, pairs) if pairs else "",
        spiked=html.escape(_words_of_spikes(crowded_bins(model))),
        margins=picture(draw_margins(model, drawn)),
        singles=_table_of_trust(singles),
        correlations=_section_of_correlations(model, drawn),
        errors_note=_words_of_errors(measured),
        errors=_table_of_errors(model, expected, measured),
    )
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return Path(path)


def _structure(model: TableModel) -> dict[str, str]:
    """What a graph has measured, or into how many parts a copula divides the table."""
    if isinstance(model, GraphModel):
        sizes = Counter(len(names) for names in model.measured)
        said = [f"{count} of {size} attributes each" for size, count in sorted(sizes.items())]
        return {"Tables measured": ", ".join(said) or "none: single attributes alone"}
    return {"Copula": ", ".join(sorted(set(model.copulas))), "Parts": str(model.layout.parts)}


def _summary(pairs: Sequence[Trust]) -> str:
    """What to think of the drawn rows, in a sentence or two.

    >>> _summary([Trust((0, 1), ("a", "b"), 0.3, 0.05, 0.04, 0.06)])  # doctest: +ELLIPSIS
    'Of 1 pair of attributes, noise leaves 1 to use and 0 to use with care; 0 are no better than independence. ...'
    """
    if not pairs:
        return "The table has one attribute: there are no pairs to trust."
    counts = Counter(pair.verdict for pair in pairs)
    use, care, lost = (counts[said] for said in ("use it", "with care", "no better than independence"))
    measured = sum(pair.measured is not None for pair in pairs)
    many = f"Of {len(pairs)} pair{'s' if len(pairs) > 1 else ''} of attributes, "
    rest = f"{use} to use and {care} to use with care; {lost} are no better than independence."
    if not measured:
        end = "How far the model itself is from the table was not measured (--measure)."
        return f"{many}noise leaves {rest} {end}"
    if measured == len(pairs):
        return f"{many}the errors measured against the table leave {rest}"
    end = (
        f"Errors of the {measured} most dependent pairs were measured against the table, those of others are by noise."
    )
    return f"{many}there are {rest} {end}"


def _section_of_pairs(model: TableModel, pairs: Sequence[Trust]) -> str:
    measured = any(pair.measured is not None for pair in pairs)
    told = (
        "Thin lines are errors as measured against the table itself, with 95 %: these promise it." if measured else ""
    )
    parts = [_WORDS.format(measured=told), picture(draw_pairs(pairs[:MOST_PAIRS]))]
    if len(pairs) > MOST_PAIRS:
        parts.append(f'<p class="note">{len(pairs) - MOST_PAIRS} more pairs depend less on one another.</p>')
    if FEWEST_NAMED <= len(model.domain.names) <= MOST_NAMED:
        parts.append("<p>All pairs: the darker, the further from independence; × marks those that are no better.</p>")
        parts.append(picture(draw_map(model, pairs)))
    parts.append(
        f"<details><summary>The numbers</summary><table>{_table_of_trust(pairs[:MOST_PAIRS])}</table></details>"
    )
    return "\n".join(parts)


def _table_of_trust(trust: Sequence[Trust]) -> str:
    pairs, measured = any(len(each.scope) > 1 for each in trust), any(each.measured is not None for each in trust)
    heads = ["pair", "error of independence, by the model"] if pairs else ["attribute"]
    heads += ["error by noise alone", "95 % of such errors"]
    heads += ["measured error", "measured error of independence"] if measured else []
    heads += ["advice" if measured else "advice, as far as noise goes"] if pairs else []
    lines = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for each in trust:
        cells = [_percent(each.dependence)] if pairs else []
        cells += [_percent(each.noise), f"{_percent(each.noise_low)} to {_percent(each.noise_high)}"]
        if measured and each.measured is not None:
            both = (each.measured.drawn, each.measured.independent)
            cells += [f"{_percent(one.low)} to {_percent(one.high)}" for one in both]
        elif measured:
            cells += ["not measured"] * 2
        cells += [each.verdict] if pairs else []
        first = f"<td>{html.escape(' × '.join(each.names))}</td>"
        lines.append(f"<tr>{first}" + "".join(f'<td class="number">{cell}</td>' for cell in cells) + "</tr>")
    return "".join(lines)


def _percent(share: float) -> str:
    """A share in percent, with a decimal where it is small.

    >>> _percent(0.1234), _percent(0.0123), _percent(0.0)
    ('12 %', '1.2 %', '0 %')
    """
    percent = 100 * share
    return "0 %" if percent == 0 else f"{percent:.0f} %" if percent >= 10 else f"{max(percent, 0.1):.1f} %"


def _words_of_spikes(crowded: Sequence[tuple[str, str, float]]) -> str:
    if not crowded:
        return ""
    said = ", ".join(f"'{name}' ({_percent(share)} in {label})" for name, label, share in crowded)
    return (
        f"Most rows are in one bin of {said}. Values are drawn anywhere inside their bin: if many rows share one value "
        'there, such as 0, state it in the domain as "spikes": [0] and fit the table under another name.'
    )


def _words_of_errors(measured: Errors | None) -> str:
    first = (
        "Mean absolute error of 200 random ranges, in percent of the rows. Errors by noise alone come from rows of the "
        "model that were fitted again with simulated noise, without a look at the table."
    )
    if measured is None:
        return first + " How well the model describes the table itself was not measured; that costs budget (--measure)."
    return first + " Measured errors compare with the table itself, with noise that their own budget paid for."


def _table_of_errors(model: TableModel, expected: Errors, measured: Errors | None) -> str:
    names = ["all attributes at once", *(html.escape(name) for name in model.domain.names)]
    columns = [[_percent(value) for value in (expected.all_attributes, *expected.each)]]
    heads = ["ranges over", "error by noise alone"]
    if measured is not None:
        columns.append([_interval(value, measured.half_width) for value in (measured.all_attributes, *measured.each)])
        heads.append("error against the table, 95 % interval")
    lines = ["<tr>" + "".join(f"<th>{head}</th>" for head in heads) + "</tr>"]
    for name, *cells in zip(names, *columns, strict=True):
        lines.append(f"<tr><td>{name}</td>" + "".join(f'<td class="number">{cell}</td>' for cell in cells) + "</tr>")
    return "".join(lines)


def _interval(value: float, half: float) -> str:
    """A measured share with what its noise leaves open.

    >>> _interval(0.02, 0.005), _interval(math.nan, 0.0)
    ('2.0 % (1.5 % to 2.5 %)', 'not measured')
    """
    if math.isnan(value):
        return "not measured"
    return f"{_percent(value)} ({_percent(max(value - half, 0.0))} to {_percent(value + half)})"


def _section_of_correlations(model: TableModel, drawn: list[NDArray[np.int64]]) -> str:
    """Correlations are what a copula is made of; a graph of tables has none of its own."""
    if not isinstance(model, CopulaModel) or len(model.layout.modelled) < 2:
        return ""
    words = "Of the normal scores behind the attributes: published (left), and of the drawn rows (right)"
    return f"<h2>Correlations</h2><p>{words}, which ties make weaker.</p>{picture(draw_correlations(model, drawn))}"
