"""All papers whose figures can be reproduced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from research.copula import COPULA_THESIS
from research.delta_neighbourhood import DELTA_PAPER
from research.dsat import DSAT_PAPER
from research.fast import FAST_PAPER
from research.figure import Figure, Paper
from research.grouping import GROUPING_PAPER
from research.personalised import PERSONALISED_PAPER
from veilstream.errors import InvalidInputError

PAPERS: Final[dict[str, Paper]] = {
    paper.name: paper
    for paper in (DSAT_PAPER, FAST_PAPER, GROUPING_PAPER, DELTA_PAPER, COPULA_THESIS, PERSONALISED_PAPER)
}


def chosen(names: Sequence[str]) -> list[tuple[Paper, Figure]]:
    """The figures of these names; the name of a paper means all of its figures, no name all there are.

    >>> [figure.name for _, figure in chosen(["dsat-2"])]
    ['dsat-2']
    """
    every = [(paper, figure) for paper in PAPERS.values() for figure in paper.figures]
    known = {figure.name for _, figure in every} | PAPERS.keys()
    for name in names:
        if name not in known:
            raise InvalidInputError(name="figure", value=name, limit=f"choose from {', '.join(sorted(known))}")
    return [(paper, figure) for paper, figure in every if not names or paper.name in names or figure.name in names]
