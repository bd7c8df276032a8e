"""How many questions run at once, and how many of them are one visitor's."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from lab.errors import QueryError
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


def test_nobody_can_take_all_places_of_this_machine() -> None:
    assert 1 <= MOST_EACH < MOST
