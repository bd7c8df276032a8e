"""How many questions run at once, and how many of them are one visitor's."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest

from lab.errors import BusyError, QueryError
from warehouse.sandbox.query_limits import MOST, MOST_EACH, QueryLimits


def test_one_visitor_leaves_room_for_others() -> None:
    limits = QueryLimits(most=4, most_each=2)
    with ExitStack() as held:
        held.enter_context(limits.running("greedy", 0.0))
        held.enter_context(limits.running("greedy", 0.0))
        with pytest.raises(QueryError, match="2 of your own queries are running: try again in a moment"):
            held.enter_context(limits.running("greedy", 0.0))
        held.enter_context(limits.running("one", 0.0))
        held.enter_context(limits.running("another", 0.0))
        with pytest.raises(QueryError, match="4 other queries are running"):
            held.enter_context(limits.running("late", 0.0))
    with limits.running("greedy", 0.0):
        pass


def test_a_waiting_query_runs_when_another_ends() -> None:
    limits = QueryLimits(most=1, most_each=1)
    got = threading.Event()

    def wait() -> None:
        with limits.running("patient", 600.0):
            got.set()

    with limits.running("first", 0.0):
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not got.wait(0.05)
    waiting.join(600)
    assert got.is_set()


def test_a_visitors_third_waiting_question_is_refused_with_and_without_threads() -> None:
    limits = QueryLimits(most=2, most_each=1)

    async def ask(visitor: str) -> None:
        async with limits.running_without_thread(visitor, 600.0):
            pass

    async def asked_at_once() -> list[BaseException | None]:
        with limits.running("hasty", 0.0):
            asking = [asyncio.create_task(ask("hasty")) for _ in range(3)]
            done, waiting = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            with (
                pytest.raises(BusyError, match="and 2 more of your queries wait: try again"),
                limits.running("hasty", 600.0),
            ):
                pass
            await ask("another")
        await asyncio.wait(waiting)
        return [task.exception() for task in (*done, *waiting)]

    refused, *answered = asyncio.run(asked_at_once())
    assert "1 of your own queries is running, and 2 more of your queries wait" in str(refused)
    assert answered == [None, None]
    assert not limits._running
    assert not limits._waiting


def test_no_visitor_can_use_the_whole_limit() -> None:
    assert 1 <= MOST_EACH < MOST
