"""Whatever a task does to its process, the parent gets an answer or an error, and the next task a process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.confined.tasks import echo, harm
from veilstream.confined import Allowance, Child, CrowdedError, Pool, UndecodableError, confined
from veilstream.confined.parent import NURSERY
from veilstream.errors import InvalidBudgetError

SMALL = Allowance(memory=256 << 20, processor=0.3, seconds=20.0)


@pytest.fixture
def child() -> Iterator[Child]:
    made = Child(harm, SMALL)
    yield made
    made.close()


def test_a_child_answers_again_and_again() -> None:
    made = Child(echo, SMALL)
    large = b"x" * (3 << 20)
    first, second = made.one({"name": "a"}, large), made.one({"name": "ü"})
    assert (first[1], second[1]) == (large, b"")
    assert (first[0]["name"], second[0]["name"]) == ("a", "ü")
    assert first[0]["child"] == second[0]["child"]
    made.close()


def test_a_task_may_give_many_answers_and_need_not_be_heard_to_the_end() -> None:
    assert len(list(confined(echo, {"times": 5}, SMALL))) == 5
    made = Child(echo, SMALL)
    answers = made.ask({"times": 5})
    next(answers)
    answers.close()
    assert not made.alive


@pytest.mark.parametrize("kind", ["abort", "memory", "processor", "private"])
def test_what_ends_a_child_is_a_refusal_without_private_words(child: Child, kind: str) -> None:
    with pytest.raises(UndecodableError) as found:
        child.one({"kind": kind})
    assert not child.alive
    assert "secret" not in str(found.value)
    assert str(found.value).endswith("nothing was stored")


def test_a_child_that_waits_for_ever_is_ended() -> None:
    made = Child(harm, Allowance(memory=256 << 20, seconds=0.2))
    with pytest.raises(UndecodableError):
        made.one({"kind": "time"})


def test_errors_arrive_with_their_fields_and_the_child_lives_on(child: Child) -> None:
    with pytest.raises(InvalidBudgetError) as found:
        child.one({"kind": "refuse"})
    error = found.value
    assert (error.name, error.limit, error.next_step) == ("epsilon", "more than 0", "give more")
    assert str(error).startswith("epsilon -1: more than 0")
    assert child.alive


def test_a_child_writes_no_file_and_knows_no_password(
    child: Child, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "password")
    NURSERY.close()
    other = Child(harm, SMALL)
    assert other.one({"kind": "environment"})[1] == b""
    other.close()
    with pytest.raises(UndecodableError):
        child.one({"kind": "file", "path": str(tmp_path / "x")})
    assert not (tmp_path / "x").exists() or (tmp_path / "x").read_bytes() == b""


def gate() -> tuple[threading.Event, threading.Event, Callable[[Child], str]]:
    began, opened = threading.Event(), threading.Event()

    def wait(_: Child) -> str:
        began.set()
        assert opened.wait(60)
        return "done"

    return began, opened, wait


def test_no_client_keeps_all_children_and_a_dead_child_is_replaced() -> None:
    pool = Pool(harm, SMALL, children=2, share=1)
    _, opened, wait = gate()
    greedy: list[Future[Any]] = [pool.submit("greedy", wait) for _ in range(3)]
    dies = pool.submit("other", lambda child: child.one({"kind": "abort"}))
    assert isinstance(dies.exception(60), UndecodableError)
    assert pool.submit("other", lambda child: child.one({"kind": "environment"})[0]).result(60) == {}
    assert not any(future.done() for future in greedy)
    opened.set()
    assert [future.result(60) for future in greedy] == ["done"] * 3


def test_no_more_wait_than_may() -> None:
    pool = Pool(echo, SMALL, children=1, share=1, waiting=1)
    began, opened, wait = gate()
    busy = pool.submit("a", wait)
    assert began.wait(120)
    taken = pool.submit("b", wait)
    with pytest.raises(CrowdedError):
        pool.submit("b", wait)
    opened.set()
    assert [future.result(60) for future in (busy, taken)] == ["done", "done"]
