"""``python -m delivery [--offline]``: wheel and sdist into ``dist``, with a bill of materials and their sums."""

from __future__ import annotations

import argparse
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from delivery import materials
from delivery.building import ROOT, build_twice, date_of_commit, write_sums
from delivery.installing import check_consumer, check_extras
from delivery.installs import check_cures, check_image, check_lines, check_targets, write_lock


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m delivery", description=__doc__)
    parser.add_argument("--offline", action="store_true", help="install nothing: no index is at hand")
    parser.add_argument("--installs", action="store_true", help="check everything that installs, and keep nothing")
    parser.add_argument("--lock", action="store_true", help="write deploy/requirements.txt anew, and nothing else")
    given = parser.parse_args()
    if given.lock:
        write_lock()
        return
    if given.installs:
        with tempfile.TemporaryDirectory() as folder:
            (wheel,) = (path for path in build_twice(Path(folder)) if path.suffix == ".whl")
            check_extras(wheel)
            check_cures(wheel)
            check_lines(wheel)
            check_image()
            check_targets()
        return
    out = ROOT / "dist"
    for old in out.glob("*") if out.exists() else ():
        old.unlink()
    built = build_twice(out)
    print("built twice, byte for byte the same: " + ", ".join(path.name for path in built), flush=True)
    if not given.offline:
        (wheel,) = (path for path in built if path.suffix == ".whl")
        check_extras(wheel)
        check_consumer(wheel)
    date = datetime.fromtimestamp(date_of_commit(), UTC)
    print(f"{materials.write(out, date.isoformat().replace('+00:00', 'Z')).name}, {write_sums(out).name}")


if __name__ == "__main__":
    main()
