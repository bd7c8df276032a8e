"""Who asks too fast waits, who asks much too fast is refused, who goes away is forgotten, and nobody else notices."""

from __future__ import annotations

import asyncio

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import Message

from access.web import pace, routes
from access.web.pace import BURST, LONGEST_WAIT_S, RATE_PER_S, OpenPages, Pace


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
    monkeypatch.setattr(pace, "_MOST_REMEMBERED", 10)
    now = 0.0
    limits = Pace(lambda: now)
    for number in range(100):
        now += 1.0
        limits.wait_s(f"visitor {number}")
    assert len(limits._free_at) <= 10


def test_a_visitor_has_so_many_pages_open_and_all_visitors_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "MOST_OPEN", 2)
    monkeypatch.setattr(pace, "MOST_OPEN_OF_ALL", 3)
    pages = OpenPages()
    with pages.one_more("hasty"), pages.one_more("hasty"):
        assert "You have 2 pages of this lab open: close some" in str(pages.why_none("hasty"))
        assert pages.why_none("another") is None
        with pages.one_more("another"):
            assert "3 pages of this lab are open" in str(pages.why_none("third"))
        assert pages.why_none("third") is None
    assert pages.why_none("hasty") is None


def test_who_goes_away_in_the_middle_of_a_form_is_no_error_of_ours() -> None:
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
