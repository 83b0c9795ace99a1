"""Long audits of many mechanisms: resumable, in parallel, with a table for the page on privacy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import polars as pl

from veilstream.audit.attack import AttackResult, attack
from veilstream.audit.bounds import CONFIDENCE, FEWEST_TRIALS, Bound
from veilstream.audit.catalogue import AUDITS, claims_of
from veilstream.errors import InvalidInputError
from veilstream.evaluate.pages import markdown_table, with_section
from veilstream.evaluate.runner import Label, Measurement, Measures, Progress, run_measurements

SECTION: Final = "audit"
"""The section of the page on privacy that holds the table."""
EVENT: Final = "event: "
"""Prefix of the measure that is named after the event: measures hold numbers alone."""

COLUMNS: Final = ("mechanism", "pairs", "claimed ε", "bound found", "trials a side", "on", "event", "verdict")


@dataclass(frozen=True, slots=True)
class AuditedClaim:
    """A mechanism and the attack on one of its claims."""

    mechanism: str
    result: AttackResult


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
) -> list[AuditedClaim]:
    """Attack all claims of the named mechanisms, or of all of them if none is named.

    Finished attacks are recorded and not repeated. Each claim says how many trials a quick and a deep audit make;
    ``share`` of them are made, or ``trials`` instead.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     audited = audit(["sample"], directory, trials=2_000, workers=1)
    >>> len(audited) > 2, all(claim.result.passed for claim in audited)
    (True, True)
    """
    if trials is not None and trials < FEWEST_TRIALS:
        raise InvalidInputError(name="trials", value=trials, limit=f"at least {FEWEST_TRIALS} a side are needed")
    if not 0 < share <= 1:
        raise InvalidInputError(name="share", value=share, limit="above 0 and at most 1")
    claims = [(name, number, claim) for name in names or AUDITS for number, claim in enumerate(claims_of(name))]
    measurements: list[Measurement] = []
    for name, number, claim in claims:
        planned = int((claim.deep if deep else claim.quick) * share)
        count = max(planned, FEWEST_TRIALS) if trials is None else trials
        labels: dict[str, Label] = {"mechanism": name, "number": number, "claim": claim.name}
        measurements.append(Measurement(labels, measured, (name, number, count, seed, confidence)))
    table = run_measurements(measurements, directory, workers=workers, progress=progress)
    return [
        AuditedClaim(name, AttackResult(claim.name, claim.epsilon, _bound(table, name, number)))
        for name, number, claim in claims
    ]


def _bound(table: pl.DataFrame, name: str, number: int) -> Bound:
    rows = table.filter((pl.col("mechanism") == name) & (pl.col("number") == number))
    values: dict[str, Any] = dict(zip(rows["metric"].to_list(), rows["value"].to_list(), strict=True))
    event = next(metric.removeprefix(EVENT) for metric in values if metric.startswith(EVENT))
    hits = int(values["left"]), int(values["right"])
    return Bound(values["bound"], event, *hits, int(values["trials"]))


def markdown(audited: Sequence[AuditedClaim]) -> str:
    """One row a mechanism: of all pairs the one that showed the largest part of the claim."""
    rows: list[list[str]] = []
    for name in dict.fromkeys(claim.mechanism for claim in audited):
        results = [claim.result for claim in audited if claim.mechanism == name]
        worst = max(results, key=lambda result: result.bound.epsilon / float(result.epsilon))
        bound, passed = worst.bound, all(result.passed for result in results)
        rows.append(
            [
                f"`{name}`",
                str(len(results)),
                f"{float(worst.epsilon):g}",
                f"{bound.epsilon:.3f}",
                f"{bound.trials:,}",
                worst.claim.partition(", epsilon")[0],
                bound.event.partition(", likelier")[0],
                "pass" if passed else "**FAIL**",
            ]
        )
    return markdown_table(COLUMNS, rows)


def write_table(audited: Sequence[AuditedClaim], page: Path) -> None:
    """Put the table into its section of ``page``."""
    text = page.read_text(encoding="utf-8")
    page.write_text(with_section(text, SECTION, markdown(audited)), encoding="utf-8")
