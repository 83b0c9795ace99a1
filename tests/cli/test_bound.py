"""``veilstream bound`` charges its look once, suggests a limit and tells nobody an exact number."""

from __future__ import annotations

from pathlib import Path

import pytest

from .support import veilstream


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    lines = ["id;when"]
    for person in range(400):
        lines.extend(f"h{person};0{1 + person % 3}/02/2024 10:{row % 60:02}" for row in range(1 + 7 * (person % 2)))
    path = tmp_path / "requests.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def options(requests: Path, *more: object) -> list[object]:
    ledger = requests.parent / "budget.db"
    columns = ["--user", "id", "--time", "when", "--time-format", "day-first"]
    return [
        requests,
        *columns,
        "--every",
        "1d",
        "--start",
        "2024-02-01",
        "--end",
        "2024-02-05",
        "--ledger",
        ledger,
        *more,
    ]


def test_a_look_is_charged_once_and_ends_in_options_to_paste(requests: Path) -> None:
    picture = requests.parent / "limits.png"
    first = veilstream("bound", *options(requests, "--epsilon", "1", "--plot", picture))
    assert first.code == 0, first.err
    assert "spent: epsilon 1" in first.out
    assert "--counts-per-user 8 --bins-per-user 8" in first.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    second = veilstream("bound", *options(requests, "--epsilon", "1", "--json"))
    assert second.json["released_before"] is True
    assert second.json["suggested"] == 8
    assert second.json["limits"][0]["kept"] < 0.4
    shown = veilstream("ledger", "show", requests.parent / "budget.db")
    assert "bound" in shown.out


def test_too_few_people_give_no_limit(requests: Path) -> None:
    told = veilstream("bound", *options(requests, "--epsilon", "1/1000"))
    assert told.code == 0, told.err
    assert "too few people to tell" in told.out
    assert "--counts-per-user" not in told.out
    again = veilstream("bound", *options(requests, "--epsilon", "1/1000", "--json"))
    assert (again.json["suggested"], again.json["limits"]) == (None, [])


def test_with_the_stream_to_come_it_weighs_noise_and_loss(requests: Path) -> None:
    stream = ["--epsilon", 1, "--publish-epsilon", 1, "--window", "7d", "--count", 30]
    told = veilstream("bound", *options(requests, *stream))
    assert told.code == 0, told.err
    assert "left out" in told.out
    assert "smallest error of a bin" in told.out
    half = veilstream("bound", *options(requests, "--publish-epsilon", 1))
    assert half.code == 2
    assert "--publish-epsilon, --window and --count" in half.err


def test_publishing_tells_the_operator_alone_what_limits_left_out(requests: Path) -> None:
    rows = "id,when\n" + "".join(f"{person},2024-02-01T10:{row:02}\n" for person in range(10) for row in range(10))
    events = requests.parent / "events.csv"
    events.write_text(rows)
    told = veilstream(
        "publish", events, "--user", "id", "--time", "when", "--every", "1d", "--start", "2024-02-01", "--end",
        "2024-02-02", "--epsilon", 1, "--window", 1, "--ledger", requests.parent / "other.db",
    )  # fmt: skip
    assert told.code == 0, told.err
    assert "left out 90.0% of the rows" in told.err
    assert "90" not in told.out
