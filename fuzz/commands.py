"""Command lines: a valid one for every command, with options of its own model changed, added or left out."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from random import Random
from typing import Any, Final

import typer

from fuzz.case import Case
from fuzz.files import MAKERS
from fuzz.values import TEXTS, texts_for
from veilstream.cli import app

PUBLISH: Final = (
    "visits.csv --time ts --user id --every 1h --start 2024-01-01 --end 2024-01-01T06:00 --epsilon 1 --window 3 "
    "--mechanism uniform --ledger b.db"
)
BASES: Final = {
    "publish": (
        f"{PUBLISH} --domain domain.json --out out.csv",
        f"{PUBLISH} --dry-run",
        PUBLISH.replace("visits.csv", "visits.parquet"),
        "visits.csv --config job.toml --ledger b.db",
        "visits.csv --time ts --value n --per-person 3 --every 1h --start 2024-01-01 --end 2024-01-01T06:00 "
        "--epsilon 1 --window 3 --mechanism uniform --ledger b.db",
    ),
    "series": (
        "visits.csv --time ts --count --user id --every 1h --start 2024-01-01 --end 2024-01-01T06:00 --epsilon 1 "
        "--ledger b.db --dry-run",
    ),
    "histogram": ("visits.csv --user id --epsilon 1 --domain domain.json --ledger b.db --out out.csv",),
    "synthesize": ("people.csv --user id --epsilon 1 --domain domain.json --ledger b.db --out out.csv --rows 3",),
    "personalised": ("people.csv --person id --ledger b.db --domain domain.json --by place --method minimum",),
    "points": (
        "people.csv --release median --at age --low 0 --high 120 --distance 5 --epsilon 1 --user id --ledger b.db",
        "people.csv --release grid --at age --at epsilon --low 0 --low 0 --high 120 --high 3 --distance 5 --epsilon 1 "
        "--row-per-person --ledger b.db --cells 4",
    ),
    "plan": ("--weights '1 1 8' --epsilon 1 --window 3",),
    "bound": ("visits.csv --time ts --user id --every 1h --start 2024-01-01 --end 2024-01-01T06:00 --ledger b.db",),
    "presence choose": (
        "visits.csv --time ts --user id --every 1h --start 2024-01-01 --end 2024-01-01T06:00 --ledger b.db "
        "--publish-epsilon 1 --window 3",
    ),
    "presence renew": (
        "visits.csv --time ts --user id --every 1h --start 2024-01-01 --end 2024-01-01T06:00 --ledger b.db --epsilon 1 "
        "--per 3 --presence 1 --blocks 1 --mechanism uniform",
    ),
    "advise": ("--count 500 --epsilon 1",),
    "compare": ("visits.csv --time ts --every 1h --window 3 --runs 1 --workers 1",),
    "mechanisms": ("",),
    "ledger show": ("b.db",),
    "ledger releases": ("b.db",),
    "ledger revisions": ("b.db",),
    "ledger charges": ("b.db",),
    "ledger verify": ("b.db",),
    "backup": ("b.db copy",),
    "ledger compact": ("b.db --no-archive",),
    "ledger grant-reader": ("b.db --role x",),
    "ledger reset": ("b.db --stream default --reason lost",),
    "restore": ("b.db", "copy c.db"),
    "ledger export": ("b.db",),
    "population define": ("b.db residents --epsilon 2 --window 24h --every 1h",),
    "population list": ("b.db",),
    "population grant": ("b.db --role x --may read",),
    "budget": ("b.db", "b.db residents --page out.html"),
    "serve": ("--config serve.toml",),
    "token create": ("me --ledger b.db --scope read",),
    "token list": ("--ledger b.db",),
    "token rotate": ("x --ledger b.db",),
    "token revoke": ("x --ledger b.db",),
    "audit": ("nonsense",),
    "demo": ("--out visits.csv",),
    "version": ("",),
}
"""A usual line of every command."""
STOPPED: Final = {"advise": ["--bins", "none"], "audit": ["nonsense"], "demo": ["--out", "visits.csv"]}
"""What makes commands that take seconds stop after all their options were read."""
RARE: Final = frozenset(("mechanisms", "advise", "synthesize", "compare", "audit", "demo", "bound", "presence renew"))
"""Commands that cost more than others."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option or argument as the command's own model says it."""

    name: str
    flag: str
    kind: str
    is_flag: bool


@cache
def model() -> dict[str, tuple[Option, ...]]:
    """The options of every command, from the command line itself.

    >>> "publish" in model(), any(option.flag == "--every" for option in model()["publish"])
    (True, True)
    """
    group: Any = typer.main.get_command(app)
    return {name: tuple(map(_option, command.params)) for name, command in _commands(group, "")}


def _commands(group: Any, before: str) -> Iterator[tuple[str, Any]]:
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "list_commands"):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _option(parameter: Any) -> Option:
    flags = [flag for flag in parameter.opts if flag.startswith("--")]
    flag = flags[0] if flags else ""
    # Versions of typer name the type of a parameter differently.
    described = getattr(parameter, "type_descriptor", None)
    kind = str(described.annotation) if described is not None else str(parameter.type)
    kinds = [known for known, mark in (("integer", "int"), ("float", "float")) if mark in kind.lower()]
    return Option(parameter.name, flag, (kinds or ["text"])[0], bool(getattr(parameter, "is_flag", False)))


def any_command(rng: Random) -> Case:
    """A command line with one to three things changed, and sometimes its files."""
    names = sorted(BASES)
    name = rng.choice(names)
    if name in RARE and rng.random() < 0.7:
        name = rng.choice(names)
    argv = changed(name, shlex.split(rng.choice(BASES[name])), rng, rng.randint(0, 3))
    argv += STOPPED.get(name, [])
    if rng.random() < 0.3:
        argv.append("--json")
    return Case("command", (*name.split(), *argv), any_files(argv, rng))


def any_files(argv: list[str], rng: Random) -> dict[str, str]:
    """Other contents for one of the files that the command names."""
    named = [word for word in argv if PurePath(word).suffix in MAKERS and word.isprintable() and "/" not in word]
    named = [word for word in named if len(word) < 20 and not word.startswith("out")]
    if not named or rng.random() < 0.4:
        return {}
    name = rng.choice(named)
    return {name: MAKERS[PurePath(name).suffix](rng)}


def changed(name: str, argv: list[str], rng: Random, times: int) -> list[str]:
    """The command's words with some options changed."""
    for _ in range(times):
        options = model()[name]
        if not options or rng.random() < 0.1:
            argv = _shuffled(argv, rng)
            continue
        option = rng.choice(options)
        if option.is_flag:
            argv = [word for word in argv if word != option.flag] if option.flag in argv else [*argv, option.flag]
            continue
        value = rng.choice(texts_for(option.name, option.kind))
        if not option.flag:
            argv = [value, *argv[1:]] if argv and not argv[0].startswith("--") else [value, *argv]
        elif option.flag in argv and rng.random() < 0.8:
            where = argv.index(option.flag)
            argv = (
                [*argv[: where + 1], value, *argv[where + 2 :]]
                if rng.random() < 0.85
                else argv[:where] + argv[where + 2 :]
            )
        else:
            argv = [*argv, option.flag, value]
    return argv


def _shuffled(argv: list[str], rng: Random) -> list[str]:
    """A word repeated, lost, put elsewhere or replaced."""
    if not argv:
        return [rng.choice(TEXTS)]
    where = rng.randrange(len(argv))
    match rng.randrange(4):
        case 0:
            return argv[:where] + argv[where + 1 :]
        case 1:
            return [*argv, argv[where]]
        case 2:
            return [*argv[:where], rng.choice(TEXTS), *argv[where + 1 :]]
        case _:
            return argv[where:] + argv[:where]
