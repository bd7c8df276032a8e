"""When a series is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import UserError
from lab.series.schedule import MOST_DUE, schedule

MARCH = datetime(2026, 3, 27, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "zone", "due"),
    [
        ("day at 02:30", "Europe/Berlin", ["28 01:30", "29 01:30", "30 00:30"]),  # at 02:30 on the 29th clocks jump
        ("Day  at 2:30", "UTC", ["28 02:30", "29 02:30", "30 02:30"]),
        ("sunday at 23:00", "UTC", ["29 23:00"]),
        ("24 hours", "UTC", ["28 00:00", "29 00:00", "30 00:00"]),
    ],
)
def test_a_schedule_is_due_at_these_moments(text: str, zone: str, due: list[str]) -> None:
    found = schedule(text, zone).due(MARCH, MARCH + timedelta(days=2.7))
    assert [f"{moment:%d %H:%M}" for moment in found] == due


def test_a_long_break_leaves_only_the_newest_moments() -> None:
    found = schedule("minute", "UTC").due(MARCH - timedelta(days=400), MARCH)
    assert (len(found), found[-1]) == (MOST_DUE, MARCH)


@given(
    st.sampled_from(["day at 02:30", "monday at 00:00", "7 minutes", "5 hours"]),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Pacific/Chatham"]),
    st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - hypothesis adds UTC
    st.floats(0, 1),
)
def test_looking_twice_finds_each_moment_once(text: str, zone: str, begin: datetime, part: float) -> None:
    table = schedule(text, zone)
    end = begin + 5 * table.period
    between = begin + part * (end - begin)
    assert table.due(begin, between) + table.due(between, end) == table.due(begin, end)
    assert table.next(begin) == table.due(begin, end)[0]


@pytest.mark.parametrize("text", ["", "night at 02:00", "day at 25:00", "0 hours", "day", "5 days at 02:00"])
def test_another_text_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UserError, match="is not a schedule: write"):
        schedule(text, "UTC")


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(UserError, match="'Berlin' is not a time zone: use a name like Europe/Berlin"):
        schedule("hour", "Berlin")
