"""What the guided page says a file would cost: found in a child process, because anybody may ask for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from veilstream.confined import Allowance, Pool
from veilstream.errors import VeilstreamError
from veilstream.jobs.model import Job
from veilstream.jobs.prepare import prepare
from veilstream.jobs.preview import preview

MOST_CELLS: Final = 2_000_000
MOST_SIMULATED: Final = 200
"""Steps: as many as a page may wait for."""
ALLOWANCE: Final = Allowance(memory=512 << 20, processor=8.0, seconds=30.0, nice=10)
MOST_WAITING: Final = 4


class TooMuchError(VeilstreamError):
    """More than the page should simulate."""

    outcome = "nothing was read"


def find_cost(given: Mapping[str, Any], _content: bytes) -> Iterator[tuple[Mapping[str, Any], bytes]]:
    """The task of a child: a dry run of the job."""
    prepared = prepare(Job.build(given))
    if prepared.bins * prepared.calendar.steps > MOST_CELLS:
        raise too_much(f"at most {MOST_CELLS} bins times steps")
    seen = preview(prepared, MOST_SIMULATED)
    yield (
        {
            "promise": seen.promise,
            "bins": seen.bins,
            "steps": seen.steps,
            "epsilon_per_release": str(seen.epsilon_per_release),
            "epsilon_per_window": str(seen.epsilon_per_window),
            "noise_std": seen.noise_std,
            "mean_absolute_error": seen.mean_absolute_error,
            "measures": [list(line) for line in seen.measures],
            "notes": list(seen.outlook),
        },
        b"",
    )


def too_much(limit: str) -> TooMuchError:
    """The refusal of a dry run."""
    return TooMuchError(name="preview", limit=f"{limit} on this page; use the command line")


@cache
def pool() -> Pool:
    """One child, beside those that decode, so that no preview holds up a batch."""
    return Pool(find_cost, ALLOWANCE, children=1, share=1, waiting=MOST_WAITING)
