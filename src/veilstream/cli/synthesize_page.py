"""The page of ``veilstream synthesize --report``: what can be trusted in the rows, simulated and perhaps measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from veilstream.synthesis.kinds import TableMechanism, TableModel
    from veilstream.synthesis.quality import Errors

ROWS_OF_PAGE: Final = 100_000


def write_page(
    path: Path,
    model: TableModel,
    mechanism: TableMechanism,
    epsilon: str,
    sealed: Any,
    book: Any,
    measure: str | None,
    name: str,
) -> Errors:
    """Write the page, and measure for it if a budget was given; the errors of ranges."""
    from veilstream.jobs.wording import promise
    from veilstream.privacy.guarantee import Guarantee
    from veilstream.synthesis.quality import expected_errors, measured_all
    from veilstream.synthesis.report import write_report
    from veilstream.synthesis.trust import marginal_trust, with_measurements

    # Always the same rows, so that a page made again asks the ledger for the same measurement.
    drawn = model.sample_codes(ROWS_OF_PAGE, seed=0)
    expected = expected_errors(model, mechanism, epsilon)
    trust = marginal_trust(model, mechanism, Guarantee(epsilon, w=1))
    measured = None
    promise_text = promise(Guarantee(epsilon, w=1)).split(" What one person does over")[0]
    promise_text = promise_text.replace(
        "Whatever one person did within one step changes", "The rows of one person change"
    )
    if measure is not None:
        pairs = [each.scope for each in trust if len(each.scope) == 2]
        measured, tables = measured_all(sealed, model, drawn, pairs, measure, book, name=f"{name} quality")
        trust = with_measurements(trust, tables)
        total = model.spent + measured.epsilon
        promise_text += f" Together with what this page measured, the budget is epsilon {total}."
    write_report(path, model, drawn, introduction=promise_text, expected=expected, measured=measured, trust=trust)
    return measured or expected
