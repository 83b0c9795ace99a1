"""Settings of ``publish`` that a live stream does without, each with what takes its place."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches
from typing import Final

from veilstream.errors import InvalidInputError

_BAD_ROWS: Final = "bad_rows says whether such rows are dropped or refuse their batch"
_TIMES: Final = "rows come in known formats; write times as ISO 8601 and numbers with a decimal point"
_READERS: Final = "readers choose it when they ask for releases (docs/live.md, Reading)"
ELSEWHERE: Final = {
    "file": "rows are sent, or come from [[sources]]",
    "row_per_person": "a batch that is sent again must not count twice as other people; send a column of ids",
    "by": "all attributes of the domain are counted by; give those that are wanted",
    "value": "rows of people are bounded one by one; publish counts that are aggregated already from a file",
    "per_person": "rows of people are bounded one by one; publish counts that are aggregated already from a file",
    "missing_value": _BAD_ROWS,
    "unknown": _BAD_ROWS,
    "missing_time": _BAD_ROWS,
    "again": "whether streams read the same rows is not known of rows that are sent; give them one population",
    "end": "it goes on; stop the server, or take the stream out of its configuration",
    "allow_empty": "steps close by the clock, also when nothing arrived",
    "public_from_data": "nothing is read before the stream is defined; give start and domain",
    "all_rows": "rows are kept until their step is closed",
    "sums": "give it as window in the mechanism's own settings, set = { window = 7 }",
    "exhausted": "a step that failed tries left no budget for repeats the last release",
    "time_format": _TIMES,
    "delimiter": _TIMES,
    "encoding": _TIMES,
    "decimal": _TIMES,
    "ledger": "it is that of the server, or the first argument of open_stream",
    "stream": "its name is that of the table [streams.NAME]",
    "key_file": "the spool beside the ledger keeps the key",
    "out": _READERS,
    "vintages": "readers ask for releases, and for later versions of them at /revisions",
    "plot": "the page draws it",
    "plot_kind": "the page draws it, and readers choose how",
    "plot_bins": "the page draws it, and readers choose which",
    "plot_title": "give a title",
    "plot_range": "the page draws it, and readers zoom",
    "plot_size": "the page draws it to the size of its window",
    "level": "intervals are at 95%; in Python stream.estimates takes a level",
}


def refuse_setting(name: str, known: Collection[str]) -> InvalidInputError:
    """The error of a setting that a live stream does not have."""
    if name in ELSEWHERE:
        limit = f"it is for publishing a file: {ELSEWHERE[name]}"
    elif near := get_close_matches(name, known, n=1):
        limit = f"unknown, did you mean '{near[0]}'?"
    else:
        limit = f"unknown, the settings are {', '.join(sorted(known))}"
    return InvalidInputError(name="stream setting", value=name, limit=limit)
