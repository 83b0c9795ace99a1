"""One line to start from for every command, shown at the end of its help."""

from __future__ import annotations

from typing import Any, Final

RANGE: Final = "--every 1h --start 2024-01-01 --end 2024-02-01"
EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "publish": (
        f"publish visits.csv --time ts --user id --domain domain.json {RANGE} --epsilon 1 --window 24h "
        "--ledger budget.db --out releases.csv --plot releases.png",
        f"publish counts.csv --time ts --value n --per-person 1 {RANGE} --epsilon 1 --window 24h --dry-run",
        "publish --config job.toml",
    ),
    "series": (
        f"series visits.csv --time ts --count --user id {RANGE} --epsilon 1 --ledger budget.db --plot series.png",
    ),
    "histogram": (
        "histogram people.csv --user id --domain domain.json --epsilon 1/2 --ledger budget.db --plot bars.png",
    ),
    "synthesize": ("synthesize people.csv --domain domain.json --epsilon 1 --out drawn.csv --report quality.html",),
    "personalised": ("personalised people.csv --person id --domain domain.json --by place --ledger budget.db",),
    "points": (
        "points homes.csv --release median --at income --low 0 --high 200000 --distance 1000 --epsilon 1 --user id "
        "--ledger budget.db",
        "points taxis.parquet --release grid --at x --at y --low 0 --low 0 --high 30 --high 30 --distance 1 "
        "--epsilon 1 --user taxi --ledger budget.db --plot map.png",
    ),
    "plan": ("plan --weights '1 1 8' --epsilon 1 --window 3",),
    "bound": (
        f"bound requests.csv --time time --user host {RANGE} --ledger budget.db --publish-epsilon 1 --window 24h "
        "--count 3000",
    ),
    "presence choose": (
        "presence choose visits.csv --time ts --user id --every 1d --start 2024-01-01 --end 2024-03-21 "
        "--ledger budget.db --publish-epsilon 1 --window 40 --plot presence.png",
    ),
    "presence renew": (
        "presence renew visits.csv --time ts --user id --every 1d --start 2024-01-01 --end 2024-12-30 --epsilon 1 "
        "--per 7 --presence 2 --blocks 4 --ledger budget.db --out releases.csv",
    ),
    "advise": (
        "advise --count 500 --bins 6 --every 1h --window 24h --error 50",
        "advise --population 10000 --bins 20 --every 1d --window 7d --epsilon 1 --plot advice.png",
        "advise --count 150 --every 1d --window 40d --epsilon 1 --visits 1.6",
    ),
    "compare": ("compare counts.csv --time ts --value n --every 1h --window 24 --public",),
    "mechanisms": ("mechanisms", "mechanisms --json"),
    "ledger show": ("ledger show budget.db",),
    "ledger releases": ("ledger releases budget.db --stream visits --after 10",),
    "ledger charges": ("ledger charges budget.db --stream visits",),
    "ledger revisions": ("ledger revisions budget.db --stream visits --latest",),
    "ledger export": ("ledger export budget.db --out history.ndjson",),
    "ledger verify": ("ledger verify budget.db",),
    "backup": ("backup budget.db copies/monday",),
    "ledger compact": ("ledger compact budget.db --no-archive",),
    "restore": ("restore copies/monday budget.db",),
    "ledger reset": ("ledger reset budget.db --stream visits --reason 'the disk was lost'",),
    "ledger grant-reader": ("ledger grant-reader postgresql://host/budget --role press",),
    "population define": ("population define budget.db residents --epsilon 2 --window 24h --every 1h",),
    "population list": ("population list budget.db",),
    "population grant": ("population grant postgresql://host/budget --role press --may read",),
    "budget": ("budget budget.db residents --page officer.html",),
    "serve": ("serve --config serve.toml", "serve --demo"),
    "token create": ("token create 'press office' --ledger budget.db --scope read",),
    "token list": ("token list --ledger budget.db",),
    "token rotate": ("token rotate ID --ledger budget.db",),
    "token revoke": ("token revoke ID --ledger budget.db",),
    "audit": ("audit uniform",),
    "demo": ("demo --out demo-output",),
    "version": ("version",),
}
"""Command -> lines without the name of the program."""
INDENT: Final = "  "
WIDTH: Final = 78


def with_examples(command: Any, name: str) -> Any:
    """The command with its examples at the end of its help."""
    known = EXAMPLES.get(name)
    if known is not None and command.epilog is None:
        command.epilog = (
            "\b\n" + ("Example:" if len(known) == 1 else "Examples:") + "\n" + "\n".join(map(_lines, known))
        )
    return command


def _lines(example: str) -> str:
    """A line to paste, continued where a terminal of 80 columns ends.

    >>> print(_lines("version"))
      veilstream version
    """
    from textwrap import wrap

    # An option and its value stay together.
    parts = f"veilstream {example}".replace(" --", "\0--").replace(" ", "\1").replace("\0", " ")
    lines = wrap(parts, WIDTH - 2, initial_indent=INDENT, subsequent_indent=2 * INDENT, break_on_hyphens=False)
    return " \\\n".join(line.replace("\1", " ") for line in lines)
