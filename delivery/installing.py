"""The wheel in empty environments: alone, with each extra alone, and under a consumer's type checkers."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from delivery.building import ROOT

CONSUMER: Final = ROOT / "delivery" / "consumer.txt"
"""A user's program, which both type checkers must accept; no module, lest it be checked against the sources."""
PARTS: Final = {
    "": "import numpy as np; vs.Publisher(2, vs.Guarantee(1, w=2), vs.Uniform()).feed(np.array([3, 4]))",
    "cli": "import veilstream.cli",
    "plot": "import veilstream.release.plots",
    "duckdb": "import veilstream.data.engines.duckdb",
    "postgres": "import psycopg",
    "server": "import veilstream.server.app; vs.Client('http://localhost')",
    "kafka": "import confluent_kafka",
    "nats": "import nats",
    "redis": "import redis",
    "lake": "import deltalake, pyiceberg",
    "spark": "import veilstream.spark",
    "telemetry": "from veilstream.server import tracing; assert tracing._tracer(); tracing.span('try').__enter__()",
    "image": "import veilstream.server.app, psycopg, confluent_kafka, nats, redis, hatchling",
    "docs": "import mkdocs, veilstream.cli, veilstream.release.plots",
}
"""Extra -> what works with it alone."""
EVERY_HELP: Final = """
from typer.testing import CliRunner
from veilstream.cli.app import COMMANDS, app
for name in COMMANDS:
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0, (name, done.output)
"""
NO_COMMAND: Final = "error: the command line needs: pip install 'veilstream[cli]'\n"


def check_extras(wheel: Path) -> None:
    """Install the wheel with nothing and with each extra alone, from an empty folder, and use what it brings."""
    for extra, program in PARTS.items():
        with tempfile.TemporaryDirectory() as folder:
            python = environment(Path(folder), f"{wheel.resolve()}[{extra}]" if extra else str(wheel.resolve()))
            run([str(python), "-I", "-c", f"import veilstream as vs; {program}; print(vs.__version__)"], Path(folder))
            command = subprocess.run(
                [str(python), "-m", "veilstream", "--help"], cwd=folder, capture_output=True, text=True, check=False
            )
            if command.returncode == 0:
                run([str(python), "-I", "-c", EVERY_HELP], Path(folder))
            elif command.stderr != NO_COMMAND:
                raise SystemExit(f"{extra or 'no extra'}: veilstream --help says {command.stderr}")
        print(f"{extra or 'no extra'}: works", flush=True)


def check_consumer(wheel: Path) -> None:
    """mypy and pyright, both strict, accept a user's program against the installed wheel."""
    with tempfile.TemporaryDirectory() as folder:
        python = environment(Path(folder), str(wheel.resolve()), "mypy", "pyright[nodejs]")
        program = Path(folder) / "consumer.py"
        program.write_text(CONSUMER.read_text(encoding="utf-8"), encoding="utf-8")
        (Path(folder) / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "include": ["consumer.py"]}')
        run([str(python), "-m", "mypy", "--strict", "consumer.py"], Path(folder))
        run([str(python), "-m", "pyright", "--pythonpath", str(python)], Path(folder))
        run([str(python), "consumer.py"], Path(folder))
    print("a consumer's program: typed and runs", flush=True)


def environment(folder: Path, *wanted: str) -> Path:
    """A fresh environment in ``folder`` with what is wanted; its interpreter."""
    place = folder / "environment"
    run([sys.executable, "-m", "uv", "venv", "--quiet", "--python", sys.executable, str(place)], folder)
    python = place / ("Scripts" if os.name == "nt" else "bin") / "python"
    if wanted:
        run([sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(python), *wanted], folder)
    return python


def run(command: list[str], folder: Path) -> None:
    """Run a program as in a shell without paths of this checkout."""
    clean = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "MYPYPATH"}}
    done = subprocess.run(command, cwd=folder, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:6])} failed:\n{done.stdout}{done.stderr}")
