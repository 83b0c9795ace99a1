"""The page for the privacy officer: what is promised to one person, in words and numbers, and everything published.

One file without scripts, which loads nothing and can be printed.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from veilstream.errors import MissingExtraError
from veilstream.release.budget import BudgetStatement, Outside, in_words, outside_in_words
from veilstream.release.budget_picture import draw_budget
from veilstream.release.sinks import replacing

STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #22313f; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.6rem; margin-bottom: 0 } h2 { font-size: 1.15rem; margin-top: 2rem }
p.promise { font-size: 1.1rem; border-left: 4px solid #0072b2; padding-left: 1rem }
section.outside { border: 3px solid #b3261e; color: #8c1d18; padding: 0 1rem; margin: 1.5rem 0 }
p.quiet, caption { color: #5f6b76 } caption { text-align: left; padding-bottom: .3rem }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #e3e7ea; vertical-align: top }
td.number, th.number { text-align: right } img { width: 100% }
dl { display: grid; grid-template-columns: max-content auto; gap: .2rem 1.2rem } dt { color: #5f6b76 } dd { margin: 0 }
@media print {
  body { max-width: none; margin: 0; font-size: 11px } h2 { break-after: avoid } tr, img { break-inside: avoid }
  thead { display: table-header-group }
}
"""


def write_officer_page(
    statements: Sequence[BudgetStatement], path: Path, others: Sequence[Outside] = (), *, ledger: str, made: str
) -> None:
    """Write the page about some populations of a ledger, and the streams that belong to none; ``made`` says when."""
    body = _outside(others) + "".join(_population(statement) for statement in statements)
    if not statements:
        body += "<p>This ledger has no population: every stream has a promise of its own.</p>"
    text = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>What is promised about people</title><style>{STYLE}</style></head><body>"
        f'<p class="quiet">Generated from the ledger {html.escape(ledger)} on {html.escape(made)}. Everything on this '
        f"page is public under the promises it states.</p>{body}</body></html>\n"
    )
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def _outside(others: Sequence[Outside]) -> str:
    if not others:
        return ""
    rows = [(one.stream, str(one.guarantee), _number(one.guarantee.epsilon), f"{one.releases:,}") for one in others]
    together = sum((one.guarantee.epsilon for one in others), Fraction(0))
    rows.append(("together", "", _number(together), f"{sum(one.releases for one in others):,}"))
    heads = ("stream", "its own promise", "epsilon", "releases")
    return (
        f'<section class="outside"><h2>Outside of every population</h2><p>{html.escape(outside_in_words(others))}.</p>'
        f"{_table('', heads, rows, numbers={2, 3})}</section>"
    )


def _population(statement: BudgetStatement) -> str:
    population, name = statement.population, html.escape(statement.population.name)
    window = statement.fullest_window
    facts = [
        ("Promised for a window", f"epsilon {_number(population.guarantee.epsilon)}"),
        ("with probability of failure", _number(population.guarantee.delta) if population.guarantee.delta else "none"),
        ("Protected", population.unit),
        ("Reserved by streams", _number(statement.reserved)),
        ("Shared by the others", _number(statement.pool)),
        (
            "Spent of it in the fullest window",
            _number(statement.fullest) + (f", from {window[0]} to {window[1]}" if window else ""),
        ),
        ("Left of it now", _number(statement.left)),
        ("Some comes back with data of", statement.comes_back or "what is spent stays spent, or nothing is"),
        ("All time together, for whoever is in all of it", f"epsilon {_number(statement.ever)}"),
    ]
    listed = "".join(f"<dt>{html.escape(term)}</dt><dd>{html.escape(fact)}</dd>" for term, fact in facts)
    return (
        f'<h1>{name}</h1><p class="promise">{html.escape(in_words(population))}</p>'
        f"<h2>In numbers</h2><dl>{listed}</dl>{_picture(statement)}{_streams(statement)}{_releases(statement)}"
    )


def _picture(statement: BudgetStatement) -> str:
    try:
        drawn = base64.b64encode(draw_budget(statement, "svg")).decode("ascii")
    except MissingExtraError:
        return ""
    return f'<h2>Over time</h2><img alt="epsilon of each window" src="data:image/svg+xml;base64,{drawn}">'


def _streams(statement: BudgetStatement) -> str:
    rows = [
        (
            one.member.name,
            one.member.membership.draw,
            f"{one.member.guarantee}; {one.mechanism}",
            _number(one.reserved) if one.member.membership.draw == "reserved" else "",
            _number(one.fullest),
            _number(one.left),
            one.comes_back or "",
            f"{one.releases:,}",
        )
        for one in statement.streams
    ]
    heads = ("stream", "draws", "its own promise", "reserved", "fullest window", "left now", "comes back", "releases")
    return f"<h2>Who draws on it</h2>{_table('', heads, rows, numbers={3, 4, 5, 7})}"


def _releases(statement: BudgetStatement) -> str:
    rows = [
        (str(one.seq), one.stream, one.time, "fresh" if one.fresh else "repeated", _number(one.spent))
        for one in statement.releases
    ]
    caption = f"{len(rows):,} releases; a repeated one cost nothing"
    heads = ("number", "stream", "time of the data", "release", "epsilon")
    return f"<h2>Everything published</h2>{_table(caption, heads, rows, numbers={0, 4})}"


def _table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[str]], numbers: set[int]) -> str:
    def cell(tag: str, index: int, text: str) -> str:
        kind = ' class="number"' if index in numbers else ""
        return f"<{tag}{kind}>{html.escape(text)}</{tag}>"

    head = "".join(cell("th", index, text) for index, text in enumerate(heads))
    body = "".join(f"<tr>{''.join(cell('td', i, text) for i, text in enumerate(row))}</tr>" for row in rows)
    title = f"<caption>{html.escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _number(value: Fraction) -> str:
    return f"{float(value):.4g}"
