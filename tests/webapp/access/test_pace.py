"""Who asks too fast waits, who asks much too fast is refused, and nobody else notices."""

from __future__ import annotations

import pytest

from webapp.access import pace
from webapp.access.pace import BURST, LONGEST_WAIT_S, RATE_PER_S, Pace


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


def test_not_more_visitors_are_remembered_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_MOST_REMEMBERED", 10)
    now = 0.0
    limits = Pace(lambda: now)
    for number in range(100):
        now += 1.0
        limits.wait_s(f"visitor {number}")
    assert len(limits._free_at) <= 10
