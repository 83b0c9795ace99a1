"""Files that nobody vouches for, read in a child process."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from errno import errorcode
from pathlib import Path
from typing import Any

import polars as pl

from veilstream.confined import UndecodableError, confined
from veilstream.data.encoding import Dropped
from veilstream.data.readers import open_batches
from veilstream.errors import UnreadableFileError, WorkerError


def open_confined(file: Path, columns: Sequence[str]) -> Iterator[tuple[pl.DataFrame, int]]:
    """The named columns of a file as ``open_batches`` gives them, and of each batch how many lines were no rows.

    A file that ends its reader cannot be read.
    Processor time and memory are limited for each batch, so a large file may take as long as it needs.
    """
    try:
        for told, content in confined(read_file, {"file": str(file), "columns": list(columns)}):
            yield pl.read_ipc_stream(content), told["unreadable"]
    except UndecodableError as error:
        raise UnreadableFileError(str(error), name="file") from None


def read_file(given: Mapping[str, Any], _content: bytes) -> Iterator[tuple[Mapping[str, Any], bytes]]:
    """The task of a child: the batches of a file, one after the other."""
    try:
        dropped, before = Dropped(), 0
        for frame in open_batches(Path(given["file"]), given["columns"], dropped=dropped):
            written = io.BytesIO()
            frame.write_ipc_stream(written)
            yield {"unreadable": dropped.unreadable - before}, written.getvalue()
            before = dropped.unreadable
    except OSError as error:
        if error.errno is None:
            raise
        # A disk or server that does not answer says nothing about the file, which is tried again.
        raise WorkerError(
            name="file", limit=f"it cannot be read now ({errorcode.get(error.errno, 'OSError')})"
        ) from None
