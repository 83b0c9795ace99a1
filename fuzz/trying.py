"""Tries one input in this process and judges what happened."""

from __future__ import annotations

import inspect
import io
import os
import shutil
import signal
import sqlite3
import tempfile
import warnings
from collections.abc import Generator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import polars as pl

from fuzz.case import Case, evaluate
from fuzz.commands import PUBLISH
from fuzz.files import DEFAULTS
from veilstream.cli import app
from veilstream.cli.problems import MEANING, ExitCode
from veilstream.errors import VeilstreamError

SECONDS: Final = 20.0
"""Processor time that one input may take; a usual one takes milliseconds."""
WAITING: Final = 120.0
"""Time by the clock, for what waits instead of working."""


class HangError(BaseException):
    """An input that took too long."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of an input; ``fault`` is empty where all is well."""

    outcome: str
    fault: str = ""


@contextmanager
def time_limit() -> Generator[None]:
    """Raise in the main thread when the time is up."""

    def stop(number: int, _frame: FrameType | None) -> None:
        raise HangError("processor time" if number == signal.SIGPROF else "time")

    kinds = ((signal.SIGPROF, signal.ITIMER_PROF, SECONDS), (signal.SIGALRM, signal.ITIMER_REAL, WAITING))
    former = [signal.signal(number, stop) for number, _, _ in kinds]
    try:
        for _, timer, seconds in kinds:
            signal.setitimer(timer, seconds)
        yield
    finally:
        for (number, timer, _), handler in zip(kinds, former, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


class Bench:
    """A place to try inputs: folders of their own, a published ledger to damage, and an eye on descriptor 2."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        self._root = Path(tempfile.mkdtemp(prefix="fuzz-", dir=memory if os.access(memory, os.W_OK) else None))
        self._home = Path.cwd()
        self._spoken = (self._root / "descriptor").open("w+b", buffering=0)
        self._stderr = os.dup(2)
        self._published: Path | None = None

    def __enter__(self) -> Bench:
        os.dup2(self._spoken.fileno(), 2)
        _serve_nobody()
        return self

    def __exit__(self, *_: object) -> None:
        os.dup2(self._stderr, 2)
        os.close(self._stderr)
        self._spoken.close()
        os.chdir(self._home)
        shutil.rmtree(self._root, ignore_errors=True)

    def attempt(self, case: Case) -> Verdict:
        """Run the input in a fresh folder and judge it."""
        folder = self._root / "now"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        os.chdir(folder)
        self._spoken.truncate(0)
        self._spoken.seek(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verdict = self._judged(case, folder)
        panic = b"panicked" in (self._root / "descriptor").read_bytes()
        return Verdict(verdict.outcome, "a panic was printed") if panic and not verdict.fault else verdict

    def _judged(self, case: Case, folder: Path) -> Verdict:
        match case.kind:
            case "call":
                return call(case.expression)
            case "command":
                write_files(case, folder)
            case "damage":
                self._copy_published(folder)
                harm(folder / "b.db", case)
        return command(case.argv)

    def _copy_published(self, folder: Path) -> None:
        if self._published is None:
            self._published = self._root / "published"
            self._published.mkdir()
            os.chdir(self._published)
            write_files(Case("command", tuple(PUBLISH.split())), self._published)
            made = command(("publish", *PUBLISH.replace("T06", "T05").split(), "--unknown", "drop"))
            if made.outcome != "OK":
                raise AssertionError(f"the ledger to damage was not made: {made}")
            os.chdir(folder)
        shutil.copytree(self._published, folder, dirs_exist_ok=True)


def _serve_nobody() -> None:
    """Let the server be made but not run, for it would never end, and the client try once instead of waiting."""
    import veilstream.server.run as server
    from veilstream import client
    from veilstream.server import demo

    class Nobody:
        def run(self) -> None:
            """Serve no request."""

    def make(*_: Any) -> Any:
        return Nobody()

    def start(_replay: Any) -> None:
        """Replay nothing."""

    client.TRIES = 1  # type: ignore[misc]
    demo.fill = partial(demo.fill, weeks=1)
    demo.in_background = start  # type: ignore[assignment]
    server.uvicorn_server = make  # type: ignore[assignment]


def write_files(case: Case, folder: Path) -> None:
    """The files that the command names, with usual contents or those of the case."""
    wanted = {name: DEFAULTS[name] for name in DEFAULTS if any(name in word or "*" in word for word in case.argv)}
    if "visits.csv" in case.argv:
        wanted.setdefault("domain.json", DEFAULTS["domain.json"])
    for name, expression in {**wanted, **case.files}.items():
        content = evaluate(expression)
        if isinstance(content, pl.DataFrame):
            content.write_parquet(folder / name)
        else:
            (folder / name).write_bytes(
                content if isinstance(content, bytes) else str(content).encode("utf-8", "replace")
            )


def harm(ledger: Path, case: Case) -> None:
    """Alter a ledger as somebody with an editor could; what SQLite itself refuses is left out."""
    if case.sql:
        connection = sqlite3.connect(ledger)
        for statement in case.sql:
            with suppress(sqlite3.Error):
                connection.execute(statement)
        connection.commit()
        connection.close()
    if case.flips:
        data = bytearray(ledger.read_bytes())
        for where, mask in case.flips:
            data[int(where * len(data))] ^= mask
        ledger.write_bytes(data)


def command(argv: tuple[str, ...]) -> Verdict:
    """Run a command line; its exit code, its line and its streams are judged."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    try:
        with time_limit(), redirect_stdout(out), redirect_stderr(err):
            app(list(argv), prog_name="veilstream")
        return Verdict("?", "the command did not end in an exit code")
    except SystemExit as ended:
        said = err.buffer.getvalue().decode()
        return _judged_exit(ended.code, said)
    except HangError as error:
        return Verdict("hang", f"hang: too much {error}")
    except BaseException as error:
        return Verdict("foreign", f"foreign exception {type(error).__name__} {where(error)}")


def _judged_exit(code: Any, said: str) -> Verdict:
    known = ExitCode(code) if code in MEANING else None
    if known is None or known is ExitCode.INTERNAL:
        first = next((line for line in said.splitlines() if line.startswith("error: ")), said[-200:])
        return Verdict(f"exit {code}", f"exit {code}: {first}")
    if "Traceback" in said:
        return Verdict(known.name, "a traceback was printed")
    if known not in (ExitCode.OK, ExitCode.INTERRUPTED):
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        # An audit or a verification that fails reports what it found.
        if len(errors) != 1 and known not in (ExitCode.LEDGER, ExitCode.BUDGET):
            return Verdict(known.name, f"{len(errors)} lines of errors instead of one")
        if errors and not errors[0].partition(". Next: ")[2].strip():
            return Verdict(known.name, "an error without a next step")
    return Verdict(known.name)


def call(expression: str) -> Verdict:
    """Evaluate an expression; only errors of veilstream may come out of it."""
    try:
        with time_limit(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            made = evaluate(expression)
            if inspect.iscoroutine(made) or hasattr(made, "close"):
                made.close()
    except VeilstreamError as error:
        if not str(error).strip() or not error.next_step.strip():
            return Verdict("refused", f"{type(error).__name__} without words or a next step")
        return Verdict("refused")
    except HangError as error:
        return Verdict("hang", f"hang: too much {error}")
    except BaseException as error:
        own = where(error)
        if own == "outside":
            # The expression itself is not valid Python at run time: nothing of ours was called.
            return Verdict("nonsense")
        return Verdict("foreign", f"foreign exception {type(error).__name__} {own}")
    return Verdict("accepted")


def where(error: BaseException) -> str:
    """The innermost line of veilstream that the error passed."""
    frames: list[str] = []
    trace = error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if f"{os.sep}veilstream{os.sep}" in name:
            frames.append(f"{name.rpartition('veilstream' + os.sep)[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"in {frames[-1]}" if frames else "outside"
