"""Long audits of many mechanisms: resumable, in parallel, with a table for the page on privacy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import polars as pl

from veilstream.audit.attack import Verdict, attack
from veilstream.audit.bounds import CONFIDENCE, FEWEST_TRIALS, Bound
from veilstream.audit.catalogue import AUDITS, claims_of
from veilstream.errors import InvalidInputError
from veilstream.evaluate.runner import Job, Label, Measures, Progress, run_jobs

BEGIN, END = "<!-- begin audit -->", "<!-- end audit -->"
EVENT: Final = "event: "
"""Measures are numbers: the event is the name of one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one claim of a mechanism."""

    mechanism: str
    verdict: Verdict


def measured(name: str, number: int, trials: int, seed: int, confidence: float) -> Measures:
    """The attack on claim ``number`` of a mechanism as measures for the runner."""
    bound = attack(claims_of(name)[number], trials, seed=seed, confidence=confidence).bound
    return {
        "bound": bound.epsilon,
        "left": bound.left_hits,
        "right": bound.right_hits,
        "trials": bound.trials,
        f"{EVENT}{bound.event}": 1.0,
    }


def audit(
    names: Sequence[str],
    directory: str | Path,
    *,
    trials: int | None = None,
    deep: bool = False,
    share: Fraction = Fraction(1),
    seed: int = 0,
    confidence: float = CONFIDENCE,
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Finding]:
    """Attack all claims of the named mechanisms (of all, if none is named); finished attacks are kept and not repeated.

    Each claim says how many trials a quick and a deep audit make; ``share`` of them are made, or ``trials`` instead.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     found = audit(["sample"], place, trials=2_000, workers=1)
    >>> len(found), all(finding.verdict.passed for finding in found)
    (3, True)
    """
    if trials is not None and trials < FEWEST_TRIALS:
        raise InvalidInputError(f"trials {trials} a side: at least {FEWEST_TRIALS} are needed")
    if not 0 < share <= 1:
        raise InvalidInputError(name="share", value=share, limit="above 0 and at most 1")
    claims = [(name, number, claim) for name in names or AUDITS for number, claim in enumerate(claims_of(name))]
    jobs: list[Job] = []
    for name, number, claim in claims:
        planned = int((claim.deep if deep else claim.quick) * share)
        count = max(planned, FEWEST_TRIALS) if trials is None else trials
        labels: dict[str, Label] = {"mechanism": name, "number": number, "claim": claim.name}
        jobs.append(Job(labels, measured, (name, number, count, seed, confidence)))
    table = run_jobs(jobs, directory, workers=workers, progress=progress)
    return [
        Finding(name, Verdict(claim.name, claim.epsilon, _bound(table, name, number))) for name, number, claim in claims
    ]


def _bound(table: pl.DataFrame, name: str, number: int) -> Bound:
    rows = table.filter((pl.col("mechanism") == name) & (pl.col("number") == number))
    values: dict[str, Any] = dict(zip(rows["metric"].to_list(), rows["value"].to_list(), strict=True))
    event = next(metric.removeprefix(EVENT) for metric in values if metric.startswith(EVENT))
    hits = int(values["left"]), int(values["right"])
    return Bound(values["bound"], event, *hits, int(values["trials"]))


def markdown(findings: Sequence[Finding]) -> str:
    """One row a mechanism: of all pairs the one that showed the largest part of the claim."""
    lines = [
        "| mechanism | pairs | claimed ε | bound found | trials a side | on | event | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(finding.mechanism for finding in findings):
        verdicts = [finding.verdict for finding in findings if finding.mechanism == name]
        worst = max(verdicts, key=lambda verdict: verdict.bound.epsilon / float(verdict.epsilon))
        bound, passed = worst.bound, all(verdict.passed for verdict in verdicts)
        cells = [
            f"`{name}`",
            str(len(verdicts)),
            f"{float(worst.epsilon):g}",
            f"{bound.epsilon:.3f}",
            f"{bound.trials:,}",
            worst.claim.partition(", epsilon")[0],
            bound.event.partition(", likelier")[0],
            "pass" if passed else "**FAIL**",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def write_table(findings: Sequence[Finding], page: Path) -> None:
    """Put the table between the markers of ``page``."""
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise InvalidInputError(
            name="page",
            value=page.name,
            limit=f"the markers {BEGIN} and {END} are missing",
            outcome="nothing was written",
        )
    before, rest = text.split(BEGIN, 1)
    page.write_text(f"{before}{BEGIN}\n{markdown(findings)}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")
