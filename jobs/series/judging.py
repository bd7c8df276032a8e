"""What a night came to: its values stored once, with what the rule finds in them, and the alarms that follow."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from jobs.series import store
from jobs.series.history import judge
from jobs.series.store import FINDINGS, SUSPICIOUS, Night, Series
from lab.metrics.number_format import percentage, times
from lab.series.alarm import MEASURES, MOST_NIGHTS, Finding, Measure
from warehouse.app_db import schema as tables
from warehouse.queries.series import Measured

#: Successive nights of an arm without a value that raise an alarm.
MOST_WITHOUT = 3
#: The newest nights that are read: more than the rule looks back, as some have no value or are outliers.
MOST_READ = MOST_NIGHTS * 2


def store_values(database: sa.Engine, series: Series, night: Night, found: Measured, now: datetime) -> None:
    """Store the night's values once, with what the rule finds in it, or in the night that it measures again."""
    if found.why_invalid is not None:
        end(database, night, state="invalid", note=found.why_invalid)
        return
    values = {"state": "measured"} | found.values
    nights = [
        Night(**vars(each) | values) if each.night_id == night.night_id else each
        for each in store.nights(database, series.series, MOST_READ)
        if each.arm == night.arm
    ]
    judged = night.again_of or night.night_id
    of_night = next(each for each in nights if each.night_id == judged)
    undecided = [measure for measure in MEASURES if getattr(of_night, FINDINGS[measure.name]) in (None, SUSPICIOUS)]
    findings = {measure: judge(nights, judged, measure) for measure in undecided}
    changed: dict[str, Any] = {}
    for measure, finding in findings.items():
        if finding is not None:
            changed[FINDINGS[measure.name]] = finding.word
            if measure is MEASURES[0] and night.again_of is None:
                changed |= {"predicted_low": finding.low, "predicted_high": finding.high}
    with database.begin() as connection:
        if not _update(connection, night, values):
            return
        if changed:
            table = tables.nights
            connection.execute(table.update().where(table.c.night_id == judged).values(changed))
        for measure, finding in findings.items():
            if finding is not None and finding.is_change:
                sentence = _sentence(of_night.arm, measure, finding)
                raise_alarm(connection, of_night, now, kind=finding.word, measure=measure.name, sentence=sentence)


def end(database: sa.Engine, night: Night, **values: str) -> None:
    """End a night without a value."""
    with database.begin() as connection:
        _update(connection, night, values)


def give_up(database: sa.Engine, night: Night) -> None:
    """End a suspicious night that no re-measurement could confirm, as an outlier."""
    columns = [column for column in FINDINGS.values() if getattr(night, column) == SUSPICIOUS]
    values = dict.fromkeys(columns, "outlier") | {"note": "it could not be confirmed: measuring again failed"}
    with database.begin() as connection:
        where = tables.nights.c.night_id == night.night_id
        connection.execute(tables.nights.update().where(where).values(values))


def _update(connection: sa.Connection, night: Night, values: dict[str, Any]) -> bool:
    """Store the values of a night that still waits for them; False if it has them already."""
    table = tables.nights
    where = (table.c.night_id == night.night_id, table.c.state == "queued")
    return connection.execute(table.update().where(*where).values(values)).rowcount == 1


def _sentence(arm: str, measure: Measure, finding: Finding) -> str:
    """Say `the speed-up of 'draft' fell by 5.1%, confirmed by measuring again; ...`."""
    change = abs(finding.change or 0.0)
    verb = "fell" if finding.word == "fall" else "rose"
    over = "" if finding.window == 1 else f", as the mean of {finding.window} nights"
    expected = (
        ""
        if measure is not MEASURES[0]
        else (f"; the nights before predicted {times(finding.low)} to {times(finding.high)}")
    )
    by = f"by {percentage(change, 1)}{over}"
    return f"the {measure.label} of {arm!r} {verb} {by}, confirmed by measuring again{expected}"


def raise_alarm(
    connection: sa.Connection, night: Night, now: datetime, *, kind: str, measure: str, sentence: str
) -> None:
    """Raise an alarm, or add the sentence to that of this kind which the night has for another arm or measure."""
    alarms, nights = tables.alarms, tables.nights
    of_moment = sa.select(nights.c.night_id).where(nights.c.series == night.series, nights.c.due_at == night.due_at)
    where = (alarms.c.series == night.series, alarms.c.kind == kind, alarms.c.night_id.in_(of_moment))
    raised = connection.execute(sa.select(alarms.c.alarm_id, alarms.c.sentence).where(*where)).one_or_none()
    if raised is None:
        about = {"series": night.series, "night_id": night.night_id, "kind": kind, "measure": measure}
        connection.execute(alarms.insert().values(about | {"sentence": sentence, "raised_at": now}))
    else:
        longer = alarms.update().where(alarms.c.alarm_id == raised.alarm_id)
        connection.execute(longer.values(sentence=f"{raised.sentence}. And {sentence}"))


def without_data(nights: Sequence[Night]) -> list[Night]:
    """Return the last nights of an arm that ended without a value."""
    ended = [night for night in nights if night.again_of is None and night.state != "queued"]
    last = max((number for number, night in enumerate(ended, 1) if night.state == "measured"), default=0)
    return ended[last:]


def raise_without_data(database: sa.Engine, series: Series, nights: Sequence[Night], now: datetime) -> None:
    """Raise one alarm when an arm has had no value for this many nights, for all arms of which this is so."""
    streaks: dict[datetime, list[list[Night]]] = {}
    for arm in dict.fromkeys(night.arm for night in nights):
        streak = without_data([night for night in nights if night.arm == arm])
        if len(streak) >= MOST_WITHOUT:
            streaks.setdefault(streak[MOST_WITHOUT - 1].due_at, []).append(streak[:MOST_WITHOUT])
    known = {alarm.night_id for alarm in store.alarms(database, series.series) if alarm.kind == "no data"}
    for found in streaks.values():
        last = [streak[-1] for streak in found]
        if known & {night.night_id for night in last}:
            continue
        reasons = "; ".join(f"{each.due_at:%Y-%m-%d %H:%M} {each.state}: {each.note}" for each in found[0])
        sentence = f"{MOST_WITHOUT} nights without data of {', '.join(repr(night.arm) for night in last)} ({reasons})"
        with contextlib.suppress(sa.exc.IntegrityError), database.begin() as connection:
            raise_alarm(connection, last[0], now, kind="no data", measure="nights", sentence=sentence)
