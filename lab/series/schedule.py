"""When a series is due: `day at 02:00`, `monday at 02:00` or `6 hours`, in a time zone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lab.errors import UserError

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_AT = re.compile(rf"(day|{'|'.join(_WEEKDAYS)}) at ([01]?\d|2[0-3]):([0-5]\d)")
_EVERY = re.compile(r"(?:(\d{1,4}) )?(minute|hour)s?")
#: The most moments that are returned: after a longer break the older ones are not events any more.
MOST_DUE = 100


@dataclass(frozen=True)
class Schedule:
    """A weekday (None: each day) and a time in a zone, or an interval, whose moments are its multiples in UTC."""

    zone: ZoneInfo
    at: time | None = None
    weekday: int | None = None
    interval: timedelta | None = None

    @property
    def period(self) -> timedelta:
        """Return the time between two nights; a day may have an hour more or less where clocks are changed."""
        return self.interval or timedelta(days=1 if self.weekday is None else 7)

    def due(self, after: datetime, until: datetime) -> list[datetime]:
        """Return the newest moments in UTC after one moment and up to another, oldest first."""
        newest = islice(takewhile(lambda moment: moment > after, self._backwards(until)), MOST_DUE)
        return list(newest)[::-1]

    def next(self, after: datetime) -> datetime:
        """Return the first moment after this one."""
        longer = timedelta(0) if self.at is None else timedelta(hours=2)
        return self.due(after, after + self.period + longer)[0]

    def _backwards(self, until: datetime) -> Iterator[datetime]:
        if self.interval is not None:
            seconds = int(self.interval.total_seconds())
            moment = datetime.fromtimestamp(until.timestamp() // seconds * seconds, UTC)
            while True:
                yield moment
                moment -= self.interval
        day = until.astimezone(self.zone).date()
        while self.at is not None:
            moment = datetime.combine(day, self.at, self.zone).astimezone(UTC)
            if moment <= until and self.weekday in (None, day.weekday()):
                yield moment
            day -= timedelta(days=1)


def schedule(text: str, zone: str) -> Schedule:
    """Read a schedule. Raises UserError for one that cannot be read, and for an unknown zone."""
    try:
        known = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(f"{zone!r} is not a time zone: use a name like Europe/Berlin, or UTC") from None
    words = " ".join(text.lower().split())
    if found := _AT.fullmatch(words):
        day, hour, minute = found.groups()
        return Schedule(known, time(int(hour), int(minute)), None if day == "day" else _WEEKDAYS.index(day))
    if (found := _EVERY.fullmatch(words)) and (number := int(found[1] or 1)):
        return Schedule(known, interval=timedelta(**{f"{found[2]}s": number}))
    raise UserError(f'{text!r} is not a schedule: write "day at 02:00", "monday at 02:00", "6 hours" or "30 minutes"')
