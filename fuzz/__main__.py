"""``python -m fuzz --inputs 1000000 --seed 1``: try many inputs and say what became of them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from fuzz.running import Tally, replay, try_all, try_chunk


def main() -> int:
    """The exit code is 1 if any input failed."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="how many inputs")
    parser.add_argument("--seed", type=int, default=1, help="another seed, other inputs")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--out", type=Path, default=Path(".fuzz"), help="keeps finished chunks and what failed")
    parser.add_argument("--replay", type=Path, help="try the inputs of a folder of kept ones instead")
    parser.add_argument("--chunk", type=int, nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--skip", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.chunk:
        first, last = given.chunk
        skipped = [int(number) for number in given.skip.split(",") if number]
        tally = try_chunk(given.seed, first, last, given.out / f"{first}.note", skipped)
        (given.out / f"{first}-{last}.json").write_text(json.dumps(tally.to_json()))
        return 0
    if given.replay:
        total = replay(given.replay.resolve())
        report(total, given.out)
        return 1 if total.failures else 0
    total = try_all(given.seed, given.inputs, given.workers, given.out.resolve())
    report(total, given.out)
    return 1 if total.failures else 0


def report(total: Tally, out: Path) -> None:
    """A summary, and one file for each kind of failure, ready to be put into the corpus."""
    sys.stdout.write(f"{total.inputs:,} inputs, {len(total.failures):,} failures\n")
    sys.stdout.write(f"{total.seconds:,.0f} s of processor time\n")
    for outcome, count in sorted(total.outcomes.items()):
        sys.stdout.write(f"  {outcome:<24}{count:>10,}\n")
    kinds: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for failed in total.failures:
        kinds[failed["fault"]].append(failed)
    folder = out / "failures"
    for number, (fault, same) in enumerate(sorted(kinds.items(), key=lambda kind: -len(kind[1]))):
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{number:03d}.json"
        smallest = min(same, key=lambda failed: len(json.dumps(failed)))
        path.write_text(json.dumps(smallest, indent=1) + "\n")
        sys.stdout.write(f"{len(same):>6} x {fault.encode('ascii', 'backslashreplace').decode()}\n         {path}\n")


if __name__ == "__main__":
    sys.exit(main())
