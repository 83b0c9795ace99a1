"""A client for a running server: send tables of rows, read releases."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

import polars as pl

from veilstream.arguments import FOREIGN, checks_arguments
from veilstream.data.readers import open_batches
from veilstream.errors import InvalidInputError, VeilstreamError
from veilstream.extras import load

ROWS_AT_ONCE: Final = 100_000
TRIES: Final = 8
LONGEST_PAUSE: Final = 10.0
LONGEST_NAME: Final = 1000
AGAIN: Final = (408, 429, 502, 503, 504)
ARROW: Final = "application/vnd.apache.arrow.stream"


class ServerRefusedError(VeilstreamError):
    """The server did not take a request; ``value`` is its status."""

    outcome = "nothing of this batch was stored"


class Client:
    """Sends rows to a server, each batch exactly once however often it has to be tried.

    ``Client("https://data.example", token).send(frame, "visits")`` takes a Polars, pandas or Arrow table, a mapping of
    columns, or a file. It returns when every row is on the server's disk.

    >>> with Client("http://localhost:8765") as client:  # it connects when it sends
    ...     print(type(client).__name__)
    Client
    """

    @checks_arguments
    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0, verify: Any = True) -> None:
        httpx = load("httpx", "the client")
        self._lost: type[Exception] = httpx.TransportError
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        try:
            self._http: Any = httpx.Client(base_url=url, headers=headers, timeout=timeout, verify=verify)
        except (httpx.InvalidURL, *FOREIGN):
            raise InvalidInputError(
                name="url", limit="an address and a token of letters are needed", outcome=""
            ) from None

    @checks_arguments
    def send(self, rows: Any, stream: str, *, batch_id: str | None = None, columns: list[str] | None = None) -> int:
        """Send rows in batches; how many batches the server stored (duplicates are not counted).

        With a ``batch_id`` the same rows may be sent again after a crash of the client and are stored once.
        """
        prefix = batch_id if batch_id is not None else uuid.uuid4().hex
        if not (prefix.isascii() and prefix.isprintable()):
            raise InvalidInputError(
                name="batch_id",
                value=batch_id,
                limit="printable ASCII characters are needed",
                outcome="nothing was sent",
            )
        names = columns if columns is not None else _columns(rows)
        stored = 0
        for number, frame in enumerate(_pieces(rows, names)):
            stored += self._post(stream, _arrow(frame), f"{prefix}-{number}") == "accepted"
        return stored

    def _post(self, stream: str, body: bytes, batch_id: str) -> str:
        headers = {"content-type": ARROW, "batch-id": batch_id}
        pause, answer = 0.1, None
        for _ in range(TRIES):
            try:
                answer = self._http.post(f"/v1/streams/{_quoted(stream)}/events", content=body, headers=headers)
            except self._lost:
                answer = None
            if answer is not None and answer.status_code not in AGAIN:
                break
            wait = float(answer.headers.get("retry-after", 0)) if answer is not None else 0.0
            time.sleep(min(LONGEST_PAUSE, max(wait, pause)))
            pause *= 2
        if answer is None:
            raise ServerRefusedError(name="server", limit=f"it cannot be reached, tried {TRIES} times")
        if not answer.is_success:
            raise ServerRefusedError(name="server", value=answer.status_code, limit=_reason(answer))
        return str(answer.json()["status"])

    def releases(self, stream: str, *, first: int | None = None) -> pl.DataFrame:
        """Every visible release as a table: step, time, attributes, value, low, high, fresh, covers, as_of."""
        frames: list[pl.DataFrame] = []
        step: int | None = first
        while True:
            wanted: dict[str, Any] = {"limit": 20_000} | ({} if step is None else {"from": step})
            page = self._get(stream, wanted | {"format": "parquet"})
            frame = pl.read_parquet(BytesIO(page))
            frames.append(frame)
            if frame.is_empty() or len(frames) > 1_000:
                break
            step = int(frame["step"][-1]) + 1
        return pl.concat(frames[:-1] or frames)

    def _get(self, stream: str, wanted: dict[str, Any]) -> bytes:
        answer = self._http.get(f"/v1/streams/{_quoted(stream)}/releases", params=wanted)
        if not answer.is_success:
            raise ServerRefusedError(name="server", value=answer.status_code, limit=_reason(answer), outcome="")
        return bytes(answer.content)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _quoted(stream: str) -> str:
    """A name as a part of an address."""
    try:
        if len(stream) <= LONGEST_NAME:
            return quote(stream, safe="")
    except UnicodeEncodeError:
        pass
    raise InvalidInputError(
        name="stream",
        value=stream,
        limit=f"a name of at most {LONGEST_NAME} whole characters is needed",
        outcome="nothing was sent",
    )


def _reason(answer: Any) -> str:
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return "it gave no reason"


def _columns(rows: Any) -> list[str]:
    names = getattr(rows, "columns", None)
    if names is None:
        names = rows.keys() if hasattr(rows, "keys") else getattr(getattr(rows, "schema", None), "names", None)
    if names is None or callable(names):
        raise InvalidInputError("rows: name the columns to send, columns=[...]", outcome="nothing was sent")
    if hasattr(rows, "column_names"):
        names = rows.column_names
    return [str(name) for name in names]


def _pieces(rows: Any, names: list[str]) -> Iterator[pl.DataFrame]:
    for frame in open_batches(rows, names):
        yield from frame.iter_slices(ROWS_AT_ONCE)


def _arrow(frame: pl.DataFrame) -> bytes:
    ipc: Any = import_module("pyarrow").ipc
    table: Any = getattr(frame, "to_arrow")()  # noqa: B009
    file = BytesIO()
    with ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()
