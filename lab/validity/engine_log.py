"""Which lines of an engine's log were written within the measured window.

A run records the length of the log when its window began and ended. Bundles before format 3 do not: their lines are
selected by timestamp. Logs have local time without a zone, in whole seconds. The zone follows from the run: the log was
copied when the run ended, so its last timestamp and the window's end are less than half a zone step apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

#: Timestamps of log lines in vLLM, SGLang and TensorRT-LLM.
_STAMPS = (
    re.compile(
        r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<month>\d\d)-(?P<day>\d\d) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d) "
    ),
    re.compile(r"^\[(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d) (?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)"),
    re.compile(r"^\[(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{4})-(?P<h>\d\d):(?P<m>\d\d):(?P<s>\d\d)\]"),
)
#: Zones differ from UTC by a multiple of this.
_ZONE_STEP_S = 900
#: How far the log's last moment may lie before the window began, and after it ended.
_BEFORE_S, _AFTER_S = 120, 300
#: The last request to the engine before the window resets its prefix cache. Searched within this many seconds.
_RESET = re.compile(r"reset(?:ting)? prefix cache|flush_cache|cache flushed", re.IGNORECASE)
_RESET_WITHIN_S = 5

Line = tuple[float | None, str]


def exact_lines(log: bytes, begin_bytes: int | None, end_bytes: int | None) -> tuple[str, ...] | None:
    """Return the lines begun between two lengths of the log; None if one is unknown or the log is shorter."""
    if begin_bytes is None or end_bytes is None or not 0 <= begin_bytes <= end_bytes <= len(log):
        return None
    if begin_bytes == end_bytes:
        return ()
    whole = log.find(b"\n", end_bytes - 1)  # the last line may have been half written
    return tuple(log[begin_bytes : None if whole < 0 else whole].decode("utf-8", "replace").splitlines())


def window_lines(log: str, started_at: str, window_s: float) -> tuple[str, ...] | None:
    """Return the lines of the window; None if the log has no timestamp that fits it.

    A line without a timestamp has that of the line before. Lines of the second in which the window began count only
    after the reset of the prefix cache, because the warm-up may have ended in the same second.
    """
    if (start := _utc(started_at)) is None:
        return None
    start_s, lines = start.timestamp(), list(_timed(log, start))
    zone_s = _zone_s(lines, start_s, start_s + window_s)
    if zone_s is None:
        return None
    begin, first_s = _begin(lines, start_s + zone_s)
    last_s = start_s + zone_s + window_s
    return tuple(text for t_s, text in lines[begin:] if t_s is not None and first_s <= t_s <= last_s)


def _utc(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def _timed(log: str, start: datetime) -> Iterator[Line]:
    t_s: float | None = None
    for text in log.splitlines():
        stamp = next((found for pattern in _STAMPS if (found := pattern.search(text))), None)
        moment_s = None if stamp is None else _moment_s(stamp.groupdict(), start)
        t_s = t_s if moment_s is None else moment_s
        yield t_s, text


def _moment_s(stamp: Mapping[str, str], start: datetime) -> float | None:
    """The timestamp as if it were UTC. Without a year, it gets the year that brings it nearest to the window."""
    years = [int(stamp["year"])] if "year" in stamp else [start.year + step for step in (-1, 0, 1)]
    moments = [moment for year in years if (moment := _moment(year, stamp)) is not None]
    nearest = min(moments, key=lambda moment: abs(moment - start), default=None)
    return None if nearest is None else nearest.timestamp()


def _moment(year: int, stamp: Mapping[str, str]) -> datetime | None:
    try:
        month, day, hour, minute, second = (int(stamp[part]) for part in ("month", "day", "h", "m", "s"))
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:  # the 29th of February of another year, or no date at all
        return None


def _zone_s(lines: list[Line], start_s: float, end_s: float) -> float | None:
    """Seconds that the log's clock is ahead of UTC; None if the log's end does not fit the window."""
    last_s = max((t_s for t_s, _ in lines if t_s is not None), default=None)
    if last_s is None:
        return None
    zone_s = _ZONE_STEP_S * round((last_s - end_s) / _ZONE_STEP_S)
    widest_s = timedelta(hours=15).total_seconds()
    fits = start_s - _BEFORE_S <= last_s - zone_s <= end_s + _AFTER_S
    return float(zone_s) if fits and abs(zone_s) <= widest_s else None


def _begin(lines: list[Line], start_s: float) -> tuple[int, float]:
    """The first line that can be in the window, and the first moment that certainly is."""
    whole_s = float(int(start_s))
    resets = [
        place
        for place, (t_s, text) in enumerate(lines)
        if t_s is not None and whole_s - _RESET_WITHIN_S <= t_s <= whole_s and _RESET.search(text)
    ]
    return (resets[-1] + 1, whole_s) if resets else (0, whole_s + 1)
