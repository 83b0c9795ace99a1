"""The gallery: scripts of ``examples/`` run as they stand, and shown with what they print and draw."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from website.outside import ROOT

SCRIPTS: Final = ROOT / "examples"
SHOWN: Final = ROOT / "docs" / "examples"
NAMES: Final = ("epidemic", "bicycles", "web_traffic", "live_page", "census", "officer", "attack", "spark")
"""The order of the gallery; a test compares it with the folder."""
_CELL: Final = re.compile(r"^# %%(?P<kind>.*)$", re.MULTILINE)
_CARD: Final = """<div markdown>
[![{title}]({name}.svg)]({name}.md)

**[{title}]({name}.md)**

{summary}
</div>"""
_INDEX: Final = """# Examples

Each example is a script in `examples/` that runs from an empty folder in a few seconds, on public or generated data,
and ends in a picture. `python -m website gallery` runs them all and keeps what they show; the test suite runs them too.

<div class="gallery" markdown>

{cards}

</div>
"""


@dataclass(frozen=True, slots=True)
class Example:
    """A script: its name, its title, and its cells as (is Markdown, text)."""

    name: str
    cells: tuple[tuple[bool, str], ...]

    @classmethod
    def read(cls, path: Path) -> Example:
        _, *parts = _CELL.split(path.read_text(encoding="utf-8"))
        cells = [("[markdown]" in kind, body.strip("\n")) for kind, body in zip(parts[::2], parts[1::2], strict=True)]
        return cls(path.stem, tuple((prose, _uncommented(body) if prose else body) for prose, body in cells))

    @property
    def title(self) -> str:
        return self.cells[0][1].splitlines()[0].removeprefix("# ")

    @property
    def summary(self) -> str:
        return self.cells[0][1].split("\n\n")[1].replace("\n", " ")

    def markdown(self) -> str:
        """The page: prose, code, and at the end what the script printed and drew."""
        parts = [text if prose else f"```python\n{text}\n```" for prose, text in self.cells]
        printed = (SHOWN / f"{self.name}.txt").read_text(encoding="utf-8").rstrip()
        if printed:
            parts += ["## What it printed", f"```text\n{printed}\n```"]
        parts += ["## The picture", f"![{self.title}]({self.name}.svg)", f"The script is `examples/{self.name}.py`."]
        return "\n\n".join(parts) + "\n"


def names() -> list[str]:
    """The examples, in the order of the gallery."""
    return list(NAMES)


def pages() -> dict[str, str]:
    """Path below the folder of examples -> Markdown."""
    found = [Example.read(SCRIPTS / f"{name}.py") for name in names()]
    cards = [_CARD.format(title=one.title, name=one.name, summary=one.summary) for one in found]
    return {"index.md": _INDEX.format(cards="\n\n".join(cards)), **{f"{one.name}.md": one.markdown() for one in found}}


def run(name: str, folder: Path) -> str:
    """Run one example in a folder; what it printed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / f"{name}.py")],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    return done.stdout


def run_all(*wanted: str) -> None:
    """Run every example, or the wanted ones, and keep its picture and what it printed."""
    SHOWN.mkdir(parents=True, exist_ok=True)
    for name in wanted or names():
        with tempfile.TemporaryDirectory() as folder:
            printed = run(name, Path(folder))
            (SHOWN / f"{name}.txt").write_text(printed, encoding="utf-8")
            (SHOWN / f"{name}.svg").write_bytes((Path(folder) / "picture.svg").read_bytes())
        print(f"{name}: drawn", flush=True)


def _uncommented(body: str) -> str:
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.splitlines()).strip("\n")
