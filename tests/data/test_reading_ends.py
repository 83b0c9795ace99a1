"""A process that stops reading a CSV file in the middle ends by itself: no thread of the reader is left to abort it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import io, sys, threading, time
from veilstream.data import csv_files
from veilstream.data.read_options import ReadOptions

csv_files.BLOCK_BYTES = 1 << 10
read = csv_files._Text._next

def slow(self, size):
    data = read(self, size)
    if threading.current_thread() is not threading.main_thread():
        time.sleep(0.1)  # the thread that reads ahead comes back while the interpreter ends
    return data

csv_files._Text._next = slow
file = io.BufferedReader(io.BytesIO(sys.argv[1].encode() * 600))
try:
    for batch in csv_files.read_csv(file, "rows.csv", ["id", "t"], ReadOptions()):
        sys.exit()
except csv_files.UnreadableFileError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("row", "said"),
    [("id,t\n1,2\n3,4,5\n", "rows.csv: a row cannot be read"), ("id,t\n1,2\n", "")],
    ids=["bad", "left"],
)
def test_a_reader_that_is_left_ends_with_its_process(row: str, said: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, row], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(said)
