"""What a one-time release would cost and promise, told before anything is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from veilstream.cli.reporting import ExitCode, print_json

if TYPE_CHECKING:
    from veilstream.mechanisms.protocols import StreamMechanism
    from veilstream.privacy.guarantee import Guarantee

DRAWS: Final = 20_000
MOST_RUNS: Final = 200


def tell_dry_run(
    guarantee: Guarantee,
    as_json: bool,
    *,
    mechanism: StreamMechanism[Any] | None = None,
    per_person: int = 1,
    **facts: Any,
) -> int:
    """Say what is public about a release: its cost, and where a simulation on empty data can tell, its noise."""
    noise = None if mechanism is None else _noise(mechanism, guarantee, int(facts["bins"]), per_person)
    told = {"epsilon": str(guarantee.epsilon), "promise": _promise(guarantee), **facts}
    return tell_facts(as_json, {**told, **({} if noise is None else {"noise_std": noise})})


def tell_facts(as_json: bool, facts: dict[str, Any]) -> int:
    """Public facts as JSON or as a table."""
    from rich.console import Console
    from rich.table import Table

    if as_json:
        print_json({"dry_run": True, **facts})
        return ExitCode.OK
    table = Table(title="dry run: nothing was read, spent or written", show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), f"{value:,.4g}" if isinstance(value, float) else str(value))
    Console().print(table)
    return ExitCode.OK


def _promise(guarantee: Guarantee) -> str:
    from veilstream.jobs.wording import promise

    return promise(guarantee)


def _noise(mechanism: StreamMechanism[Any], guarantee: Guarantee, bins: int, per_person: int) -> float:
    """The standard deviation of a bin, on data without anybody."""
    import numpy as np

    from veilstream.testing.simulation import simulate_many

    runs = max(1, min(MOST_RUNS, DRAWS // bins))
    empty = np.zeros((1, bins), dtype=np.int64)
    drawn = simulate_many(mechanism, guarantee, empty, seed=1, runs=runs, max_contribution=per_person)
    return float(np.std(np.asarray(drawn)))
