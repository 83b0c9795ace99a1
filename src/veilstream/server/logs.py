"""The log: one JSON object a line, with an event and public facts.

It names streams, steps, tokens and kinds of errors. It never holds a row, a number of rows, a person or a value that
was not released: logs go further than operators think.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Final, Literal

LOG: Final = logging.getLogger("veilstream.server")
LEVELS: Final = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def log(event: str, *, level: Literal["info", "warning", "error"] = "info", **facts: str | int | None) -> None:
    """Write an event and what is public about it."""
    LOG.log(LEVELS[level], "%s", event, extra={"facts": facts})


class JsonLines(logging.Formatter):
    """One JSON object a line.

    >>> record = logging.LogRecord("veilstream.server", logging.INFO, "", 0, "step closed", (), None)
    >>> record.created, record.facts = 0.0, {"stream": "visits", "step": 7}
    >>> JsonLines().format(record)
    '{"time": "1970-01-01T00:00:00+00:00", "level": "info", "event": "step closed", "stream": "visits", "step": 7}'
    """

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info is not None and record.exc_info[0] is not None:
            # Where, and of which kind; a traceback's text may quote private values.
            line["error"] = record.exc_info[0].__name__
        return json.dumps(line)


def write_log() -> None:
    """Send the log to the standard error output, as ``veilstream serve`` does."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    # Libraries too: a driver's traceback would quote statements.
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("veilstream").setLevel(logging.INFO)
