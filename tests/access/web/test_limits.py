"""What one visitor may take: requests, open pages, bytes in memory and hashes of passwords; nobody else notices."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from access.web import limits as web_limits
from access.web import routes
from access.web.limits import (
    BURST,
    LONGEST_WAIT_S,
    MOST_OF_ADDRESS,
    MOST_OF_ALL,
    RATE_PER_S,
    Hashing,
    HeldBytes,
    OpenPages,
    Pace,
    TooManyWaitError,
)
from lab.errors import BusyError

MIB = 2**20


def test_a_burst_passes_then_requests_wait_then_they_are_refused() -> None:
    now = 100.0
    limits = Pace(lambda: now)
    waits = [limits.wait_s("hasty") for _ in range(int(BURST + RATE_PER_S * LONGEST_WAIT_S) + 50)]
    assert set(waits[: int(BURST)]) == {0.0}
    passed = [wait for wait in waits if wait is not None]
    assert passed == sorted(passed)
    assert passed[-1] == pytest.approx(LONGEST_WAIT_S)
    assert set(waits[len(passed) :]) == {None}
    assert limits.wait_s("another") == 0.0
    now += LONGEST_WAIT_S + BURST / RATE_PER_S
    assert limits.wait_s("hasty") == 0.0


def test_who_keeps_to_the_rate_never_waits() -> None:
    now = 0.0
    limits = Pace(lambda: now)
    for _ in range(1000):
        now += 1 / RATE_PER_S
        assert limits.wait_s("steady") == 0.0


def test_a_part_that_renews_itself_counts_less_than_a_page() -> None:
    limits = Pace(lambda: 0.0, rate_per_s=2.0, burst=4.0)
    assert [limits.wait_s("watches", 0.1) for _ in range(40)] == pytest.approx([0.0] * 40)
    assert limits.wait_s("watches") == pytest.approx(0.5)
    assert [limits.wait_s("opens") or 0.0 for _ in range(6)] == pytest.approx([0.0] * 4 + [0.5, 1.0])


def test_not_more_visitors_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_limits, "_MOST_REMEMBERED", 10)
    now = 0.0
    limits = Pace(lambda: now)
    for number in range(100):
        now += 1.0
        limits.wait_s(f"visitor {number}")
    assert len(limits._free_at) <= 10


def test_a_visitor_has_so_many_pages_open_and_all_visitors_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_limits, "MOST_OPEN", 2)
    monkeypatch.setattr(web_limits, "MOST_OPEN_OF_ALL", 3)
    pages = OpenPages()
    with pages.one_more("hasty"), pages.one_more("hasty"):
        assert "You have 2 pages of this lab open: close some" in str(pages.why_none("hasty"))
        assert pages.why_none("another") is None
        with pages.one_more("another"):
            assert "3 pages of this lab are open" in str(pages.why_none("third"))
        assert pages.why_none("third") is None
    assert pages.why_none("hasty") is None


def test_a_visitor_who_leaves_within_a_form_is_no_error() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    with pytest.raises(HTTPException) as ended:
        asyncio.run(routes._form(Request({"type": "http", "method": "POST", "headers": []}, receive)))
    assert ended.value.status_code == 400


def test_a_form_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_FORM_COMES_S", 0.01)

    async def receive() -> Message:
        return await asyncio.Future()

    with pytest.raises(HTTPException) as ended:
        asyncio.run(routes._form(Request({"type": "http", "method": "POST", "headers": []}, receive)))
    assert ended.value.status_code == 408


def test_strangers_are_refused_and_delay_nobody_who_is_known() -> None:
    go_on = threading.Event()

    def slow() -> str:
        assert go_on.wait(600)
        return "hashed"

    async def flood() -> None:
        hashing = Hashing()
        addresses = [f"10.0.0.{number // MOST_OF_ADDRESS}" for number in range(MOST_OF_ALL)]
        waiting = [asyncio.create_task(hashing.in_turn(address, slow)) for address in addresses[:MOST_OF_ADDRESS]]
        await asyncio.sleep(0)  # until each waits
        with pytest.raises(TooManyWaitError):
            await hashing.in_turn(addresses[0], slow)
        waiting += [asyncio.create_task(hashing.in_turn(address, slow)) for address in addresses[MOST_OF_ADDRESS:]]
        await asyncio.sleep(0)
        with pytest.raises(TooManyWaitError, match="too many people are signing in"):
            await hashing.in_turn("10.0.1.1", slow)
        assert await hashing.at_once(lambda: "known") == "known"
        go_on.set()
        assert await asyncio.gather(*waiting) == ["hashed"] * MOST_OF_ALL
        assert await hashing.in_turn("10.0.1.1", lambda: "next") == "next"

    asyncio.run(asyncio.wait_for(flood(), 600))


def test_a_visitor_has_a_share_and_all_visitors_have_a_limit() -> None:
    account = HeldBytes(100 * MIB, Counter, most_each=40 * MIB)
    with account.holding("sue", 40 * MIB):
        with pytest.raises(BusyError, match=r"you have 40 MiB in the page's memory, and 1\.0 more would exceed 40"):
            account.hold("sue", MIB)
        account.hold("sam", 40 * MIB)
        account.hold("kim", 20 * MIB)
        with pytest.raises(BusyError, match="no memory left"):
            account.hold("eve", MIB)
    account.hold("eve", MIB)
    for name, mib in (("sam", 40), ("kim", 20), ("eve", 1)):
        account.let_go(name, mib * MIB)
    assert not account._held


def test_what_was_uploaded_counts_too_and_one_visitor_never_has_it_all() -> None:
    uploaded = Counter({"sue": 30 * MIB})
    account = HeldBytes(100 * MIB, lambda: uploaded)
    with pytest.raises(BusyError, match="you have 30 MiB"):
        account.hold("sue", 21 * MIB)
    uploaded.clear()
    account.hold("sue", 50 * MIB)
    with pytest.raises(BusyError):
        account.hold("sue", 1)
