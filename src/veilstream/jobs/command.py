"""The ``veilstream publish`` command of a mechanism, to paste."""

from __future__ import annotations

from inspect import signature

from veilstream.mechanisms.streams import STREAMS


def publish_command(
    label: str,
    *,
    every: str | int,
    window: int | None,
    epsilon: object = "EPSILON",
    steps: int | None = None,
    sums: int | None = None,
    per_person: int = 1,
    counted_before: bool = False,
    measured: str = "",
) -> str:
    """The command for a mechanism as comparisons label it, e.g. ``fixed-rate interval=4 histogram=efpa``.

    Words in capitals are for the reader to fill in. ``steps`` is the horizon at user level, ``measured`` what is asked
    of a column.

    >>> print(publish_command("fixed-rate interval=4 histogram=efpa", every="1h", window=24, epsilon=1))
    veilstream publish FILE --time TIME --user ID --domain DOMAIN.json \\
      --every 1h --start START --end END --epsilon 1 --window 24 \\
      --mechanism fixed-rate --histogram efpa --set interval=4 \\
      --ledger budget.db --out releases.csv --plot releases.png
    """
    name, *pairs = label.split()
    given = dict(pair.split("=", 1) for pair in pairs)
    histogram = given.pop("histogram", None)
    parameters = signature(STREAMS[name]).parameters
    if window is None and "horizon" in parameters:
        given["horizon"] = "STEPS" if steps is None else str(steps)
    if sums is not None and "window" in parameters:
        given["window"] = str(sums)
    who = f"--value COUNTS --per-person {per_person}" if counted_before else "--user ID"
    who = f"{who} {measured}" if measured else who
    chosen = [f"--mechanism {name}", *([f"--histogram {histogram}"] if histogram else [])]
    chosen += [f"--set {key}={value}" for key, value in given.items()]
    if per_person > 1 and not counted_before:
        chosen.append(f"--counts-per-user {per_person} --bins-per-user {per_person}")
    parts = [
        f"veilstream publish FILE --time TIME {who} --domain DOMAIN.json",
        f"--every {every} --start START --end END --epsilon {epsilon} --window {'user' if window is None else window}",
        " ".join(chosen),
        "--ledger budget.db --out releases.csv --plot releases.png",
    ]
    return " \\\n  ".join(parts)
