"""The image installs packages by their hashes, and its lock satisfies what pyproject.toml asks for."""

from __future__ import annotations

import re
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from delivery.building import ROOT
from delivery.installs import lines, targets

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCK = (ROOT / "deploy/requirements.txt").read_text(encoding="utf-8")


def required(extra: str) -> list[Requirement]:
    """What an extra needs, with what its parts and the package alone need."""
    found: list[Requirement] = []
    for text in PROJECT["optional-dependencies"][extra]:
        one = Requirement(text)
        found += [one] if one.name != "veilstream" else [r for part in one.extras for r in required(part)]
    return found


def test_the_lock_satisfies_pyproject_with_a_hash_for_every_package() -> None:
    pins = re.findall(r"^([a-z0-9._-]+)(?:\[.*\])?==(\S+)", LOCK, re.MULTILINE)
    wanted = [*map(Requirement, PROJECT["dependencies"]), *required("image")]
    assert len(wanted) > 15
    for one in wanted:
        versions = [version for name, version in pins if name == canonicalize_name(one.name)]
        assert versions, f"{one}: run make lock"
        assert all(one.specifier.contains(version) for version in versions), f"{one}: run make lock"
    entries = re.split(r"\n(?=[a-z])", LOCK.partition("\n#    make lock\n")[2])
    assert len(entries) == len(pins)
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in LOCK


def test_the_image_installs_the_lock_and_nothing_that_it_does_not_name() -> None:
    installs = [line for line in (ROOT / "deploy/Dockerfile").read_text("utf-8").splitlines() if "pip install" in line]
    assert len(installs) == 2
    assert "--require-hashes -r requirements.txt" in installs[0]
    assert "--no-deps --no-build-isolation" in installs[1]


def test_lines_that_install_are_found_and_ci_runs_them() -> None:
    found = lines()
    assert "README.md" in found["'.[cli,plot]'"]
    assert "docs/live.md" in found["'veilstream[server]'"]
    assert {"demo", "live", "storm", "installs"} <= set(targets())
    assert "make installs" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_a_stamp_of_the_makefile_claims_no_other_install() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"touch .*", makefile) == ["touch $@", "touch $@"]
    for extras in re.findall(r"\.installed-([a-z,]+)", makefile):
        assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
