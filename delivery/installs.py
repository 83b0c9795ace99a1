"""Every line that installs, as it stands in the files, in an empty environment; then what the reader does next."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Final

from delivery.building import ROOT, copy_tree, tracked_files
from delivery.installing import environment, run

LINE: Final = re.compile(r"pip install ((?:'[^'\n]+'|[a-z][a-z0-9_-]*)(?: (?:'[^'\n]+'|[a-z][a-z0-9_-]*))*)")
"""A line for a reader: names and paths up to a comment, a quotation mark or the end of a sentence."""
READ: Final = (".md", ".py", ".yaml", ".toml", ".txt", ".service")
ELSEWHERE: Final = {"Makefile", "deploy/Dockerfile", "deploy/requirements.txt"}
"""Whose lines are run by commands of their own: targets, and the image."""
NOT_LINES: Final = ("delivery/", "tests/", "storm/", "CHANGELOG.md")
IN_CI: Final = {"test", "lint", "mypy", "pyright"}
"""Run whole by ``.ci/run``, in an empty environment."""
CHANGES: Final = {"clean", "lock", "installs"}
"""What removes or writes files of the checkout, and this command."""
SERVES: Final = {"live"}
PATIENCE: Final = 120.0
ROWS: Final = "id,t\n" + "".join(f"{who},{who % 24}\n" for who in range(48))
PUBLISH: Final = "publish rows.csv --user id --time t --every 1 --start 0 --end 24 --epsilon 1 --window 2 --ledger b.db"
FOLLOWED: Final = {
    "veilstream demo --out demo": "published privately",
    f"veilstream {PUBLISH} --plot p.png": "",
    "veilstream compare counts.csv --time t --value n --every 1 --window 2 --public --out out": "",
    "veilstream ledger show postgresql://nobody@127.0.0.1:1/none": "error: ",
    "veilstream token list --ledger budget.db": "tokens",
    "veilstream serve --ledger budget.db": "error: streams: none is defined",
    "python -c \"import veilstream as vs; vs.Client('http://127.0.0.1:1')\"": "",
    "python -c \"import veilstream as vs; vs.Ledger.open('postgresql://nobody@127.0.0.1:1/none')\"": "Error: ",
    'python -c "from veilstream.spark import local_session; local_session().stop()"': "",
}
"""What a user runs after the shortest install -> what is said once every cure that was named has been followed."""


def lines(root: Path = ROOT) -> dict[str, list[str]]:
    """What is to be installed by every line of documents, deploy files and messages -> the files that say so."""
    found: dict[str, list[str]] = {}
    for name in tracked_files(root):
        if name in ELSEWHERE or name.startswith(NOT_LINES) or not name.endswith(READ):
            continue
        for match in LINE.finditer((root / name).read_text(encoding="utf-8")):
            if "{" not in match[1]:
                found.setdefault(match[1], []).append(name)
    return found


def check_lines(wheel: Path) -> None:
    """Run each line in an empty environment, in a fresh checkout."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        copy_tree(clone)
        for number, (line, files) in enumerate(lines().items()):
            place = Path(folder) / str(number)
            place.mkdir()
            python = environment(place)
            _install(python, shlex.split(line), clone, wheel)
            if "veilstream" in line or line.startswith(("'.", ".")):
                run([str(python), "-I", "-c", "import veilstream"], place)
            print(f"pip install {line}: works ({', '.join(sorted(set(files))[:3])})", flush=True)


def check_cures(wheel: Path) -> None:
    """Begin with nothing installed but the package, and follow what the errors say until they are gone."""
    for program, wanted in FOLLOWED.items():
        with tempfile.TemporaryDirectory() as folder:
            python = environment(Path(folder), str(wheel.resolve()))
            (Path(folder) / "rows.csv").write_text(ROWS, encoding="utf-8")
            (Path(folder) / "counts.csv").write_text("t,n\n" + "".join(f"{t},{t % 7}\n" for t in range(60)), "utf-8")
            followed: list[str] = []
            while True:
                said = _said(shlex.split(program), python, Path(folder))
                cure = re.search(r"pip install '(veilstream\[[a-z]+\])'", said)
                if "internal error" in said or "ModuleNotFoundError" in said or (cure and cure[1] in followed):
                    raise SystemExit(f"{program}, after {followed}: {said}")
                if cure is None:
                    break
                if any(Path(folder).rglob("*.db")):
                    raise SystemExit(f"{program}: misses {cure[1]} after a ledger was begun")
                followed.append(cure[1])
                _install(python, [cure[1]], Path(folder), wheel)
            if wanted not in said:
                raise SystemExit(f"{program}, after {followed}: says {said!r}, not {wanted!r}")
        print(f"{program}: works after {', '.join(followed) or 'nothing'}", flush=True)


def targets() -> list[str]:
    """The commands of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return [name for line in re.findall(r"^\.PHONY:(.*)$", makefile, re.MULTILINE) for name in line.split()]


def check_targets() -> None:
    """Run targets in fresh clones: the short ones whole and in both orders, of the long ones set-up and beginning."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    short = [name for name in targets() if name not in IN_CI | CHANGES and not _is_long(name, makefile)]
    long = [name for name in targets() if name not in IN_CI | CHANGES and name not in short]
    for order in (short, short[::-1], long):
        with tempfile.TemporaryDirectory() as folder:
            clone = Path(folder) / "clone"
            copy_tree(clone)
            for name in order:
                began = time.monotonic()
                _make(name, clone, slow=order is short and name == short[0], more="--help" if order is long else "")
                print(f"make {name}: works ({time.monotonic() - began:.0f} s)", flush=True)


def check_image() -> None:
    """Install what the Dockerfile installs, from what it copies, and ask it as its HEALTHCHECK does."""
    text = (ROOT / "deploy/Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    with tempfile.TemporaryDirectory() as folder:
        whole, copied, place = (Path(folder) / name for name in ("whole", "copied", "place"))
        copy_tree(whole)
        copied.mkdir()
        place.mkdir()
        python = environment(place)
        for instruction, rest in re.findall(r"^(COPY|RUN) (.*)$", text.split("FROM ")[1], re.MULTILINE):
            if instruction == "COPY":
                *sources, target = rest.split()
                for source in sources:
                    run(["cp", "-r", str(whole / source), str(copied / target)], copied)
            elif " install " in rest:
                wanted = [word for word in shlex.split(rest.partition(" install ")[2]) if word != "--no-cache-dir"]
                _install(python, wanted, copied, None)
        port = _free_port()
        (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
        (health,) = re.findall(r"^HEALTHCHECK .*? CMD (.*)$", text, re.MULTILINE)
        given = [str(whole / "deploy/serve.toml") if "serve.toml" in word else word for word in json.loads(command)]
        given = ["127.0.0.1" if word == "0.0.0.0" else word for word in given]
        given += ["--port", str(port), "--ledger", str(place / "budget.db")]
        asked = [word.replace("8765", str(port)) for word in json.loads(health)]
        server = subprocess.Popen([str(python.with_name("veilstream")), *given], cwd=place, env=_clean())
        try:
            _answers(port, server)
            run([str(python), *asked[1:]], place)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(PATIENCE)
    print("the image: installs, serves and is healthy", flush=True)


def write_lock() -> None:
    """Resolve the extra of the image anew, with hashes, for every Python that we support."""
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "compile",
        "--quiet",
        "pyproject.toml",
        "--extra",
        "image",
        "--upgrade",
    ]
    command += ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate"]
    command += ["--custom-compile-command", "make lock", "--output-file", "deploy/requirements.txt"]
    run(command, ROOT)


def _is_long(name: str, makefile: str) -> bool:
    """Whether a target hands over ``ARGS``, and so can be asked for its help alone."""
    found = re.search(rf"^{name}:[^\n]*\n((?:\t[^\n]*\n)+)", makefile, re.MULTILINE)
    return name not in SERVES and found is not None and "$(ARGS)" in found[1]


def _make(name: str, clone: Path, *, slow: bool, more: str) -> None:
    """Make a target; with uv in place of pip, which takes seconds, except for the slow one."""
    command = ["make", "--no-print-directory", name, f"PYTHON={sys.executable}", f"ARGS={more}", "PYTHONS="]
    if not slow:
        # Not python -m uv, which installs into the environment of that Python whatever VIRTUAL_ENV says.
        command.append(f"PIP={Path(sys.executable).with_name('uv')} pip --quiet")
    environ = {**_clean(), "VIRTUAL_ENV": str(clone / ".venv")}
    if name not in SERVES:
        done = subprocess.run(command, cwd=clone, env=environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"make {name} in a fresh clone failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        return
    port = _free_port()
    command[4] = f"ARGS=--port {port}"
    server = subprocess.Popen(command, cwd=clone, env=environ, start_new_session=True)
    try:
        _answers(port, server)
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
        server.wait(PATIENCE)


def _answers(port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until a server is ready."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit(f"{server.args!r}: does not serve, exit code {server.poll()}")


def _install(python: Path, wanted: list[str], folder: Path, wheel: Path | None) -> None:
    """``pip install`` by uv; the package comes from the wheel that was built, not from an index."""
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(python)]
    found = [] if wheel is None else ["--find-links", str(wheel.resolve().parent)]
    run([*command, *found, *wanted], folder)


def _said(program: list[str], python: Path, folder: Path) -> str:
    command = [str(python), *program[1:]] if program[0] == "python" else [str(python), "-m", *program]
    done = subprocess.run(command, cwd=folder, env=_clean(), capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _clean() -> dict[str, str]:
    left_out = {"PYTHONPATH", "MYPYPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL"}
    return {name: value for name, value in os.environ.items() if name not in left_out}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
