"""How many questions run at once, and how many of them are one visitor's."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack

import pytest

from lab.errors import BusyError, QueryError
from warehouse.sandbox.places import MOST, MOST_EACH, Places


def test_one_visitor_leaves_places_for_others() -> None:
    places = Places(most=4, most_each=2)
    with ExitStack() as held:
        held.enter_context(places.taken("greedy", 0.0))
        held.enter_context(places.taken("greedy", 0.0))
        with pytest.raises(QueryError, match="2 of your own queries are running: try again in a moment"):
            held.enter_context(places.taken("greedy", 0.0))
        held.enter_context(places.taken("one", 0.0))
        held.enter_context(places.taken("another", 0.0))
        with pytest.raises(QueryError, match="4 other queries are running"):
            held.enter_context(places.taken("late", 0.0))
    with places.taken("greedy", 0.0):
        pass


def test_who_waits_gets_the_place_that_becomes_free() -> None:
    places = Places(most=1, most_each=1)
    got = threading.Event()

    def wait() -> None:
        with places.taken("patient", 60.0):
            got.set()

    with places.taken("first", 0.0):
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not got.wait(0.05)
    waiting.join(60)
    assert got.is_set()


def test_a_visitors_third_waiting_question_is_refused_with_and_without_threads() -> None:
    places = Places(most=2, most_each=1)

    async def ask(visitor: str) -> None:
        async with places.taken_without_thread(visitor, 60.0):
            pass

    async def asked_at_once() -> list[BaseException | None]:
        with places.taken("hasty", 0.0):
            asking = [asyncio.create_task(ask("hasty")) for _ in range(3)]
            done, waiting = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            with pytest.raises(BusyError, match="and 2 more of yours wait: try again"), places.taken("hasty", 60.0):
                pass
            await ask("another")
        await asyncio.wait(waiting)
        return [task.exception() for task in (*done, *waiting)]

    refused, *answered = asyncio.run(asked_at_once())
    assert "1 of your own queries is running, and 2 more of yours wait" in str(refused)
    assert answered == [None, None]
    assert not places._taken
    assert not places._waiting


def test_nobody_can_take_all_places_of_this_machine() -> None:
    assert 1 <= MOST_EACH < MOST
