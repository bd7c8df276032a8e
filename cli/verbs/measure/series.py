"""`drafthouse series`: studies that are measured again and again, and their alarms."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from access.local import local_actor
from cli.arguments import AsJson, AsReference, StudyName
from cli.lab import ready_database, ready_settings
from cli.named_study import named_study
from cli.output import figure, print_json, print_table, print_text
from jobs.series import store
from jobs.series.judging import MOST_WITHOUT
from jobs.series.store import Alarm, Night, Plan, Series
from lab.errors import UserError
from lab.metrics.number_format import ratio
from lab.study.parsing import measured_until_decided

_OPEN = 1
_NEWEST = 20

app = typer.Typer(add_completion=False)

Name = Annotated[str, typer.Argument(metavar="SERIES", help="As `drafthouse series list` shows it.")]
AlarmNumber = Annotated[int, typer.Argument(metavar="ALARM", help="As `drafthouse series check` shows it.")]


@app.callback()
def series() -> None:
    """Measure a study each night, and raise an alarm when it has become worse."""


@app.command()
def add(
    study: StudyName,
    *,
    every: Annotated[str, typer.Option(help='"day at 02:00", "monday at 02:00", "6 hours" or "30 minutes".')],
    zone: Annotated[str, typer.Option(help="Time zone of the schedule, such as Europe/Berlin.")] = "UTC",
    name: Annotated[str | None, typer.Option(help="Name of the series; default: the study's.")] = None,
    arm: Annotated[str | None, typer.Option(help="The only arm to watch; default: all.")] = None,
    engine: Annotated[str | None, typer.Option(help="Newest version each night, like vllm@newest.")] = None,
    priority: Annotated[int, typer.Option(help="Priority of its jobs.")] = 0,
    budget: Annotated[
        str | None, typer.Option(help='Measure each night until decided, at most this long: "45 min".')
    ] = None,
    reference: AsReference = False,
) -> None:
    """Add a series: from now on the study is queued by the schedule, while the page runs."""
    named = named_study(study, reference=reference)
    named = named if budget is None else measured_until_decided(named, budget)
    plan = Plan(every, zone, arm, engine, priority)
    called = name or named.name.replace(" ", "-")
    made = store.add(ready_settings(), ready_database(), called, named, plan, actor=local_actor())
    print_text(f"{made.series} watches {made.watched} of {made.study!r}; it is next due at {_next(made)}.")


@app.command("add-imported")
def add_imported(
    name: Annotated[str, typer.Argument(metavar="SERIES", help="The value of the label series.")],
    *,
    arm: Annotated[str | None, typer.Option(help="The only arm to watch; default: all.")] = None,
) -> None:
    """Add a series of jobs that are imported with the labels series=SERIES and commit=LABEL."""
    made = store.add_imported(ready_database(), name, arm, actor=local_actor())
    print_text(
        f"{made.series} watches {made.watched} of jobs imported with --label series={name}, while the page runs."
    )


@app.command(name="list")
def list_series(*, as_json: AsJson = False) -> None:
    """List the series with their last night and open alarms."""
    database = ready_database()
    every = [(each, store.nights(database, each.series)) for each in store.all_series(database)]
    open_alarms = [alarm for alarm in store.alarms(database) if alarm.is_open]
    if as_json:
        print_json([_document(each, nights[-1:], open_alarms) for each, nights in every])
        return
    rows = [
        (
            *(each.series, each.study, each.watched, each.schedule, each.zone, _next(each)),
            *(_words(nights[-1]) if nights else "no night yet", sum(a.series == each.series for a in open_alarms)),
        )
        for each, nights in every
    ]
    print_table(("series", "study", "arms", "every", "zone", "next", "last night", "alarms"), rows)


@app.command()
def show(name: Name, *, as_json: AsJson = False) -> None:
    """Show the nights, alarms and annotations of a series."""
    database = ready_database()
    found, nights, alarms = store.named(database, name), store.nights(database, name), store.alarms(database, name)
    if as_json:
        print_json(_document(found, nights, alarms))
        return
    print_text(f"{found.series}: {found.watched} of {found.study!r}, {_when(found)}, next {_next(found)}")
    head = ("night", "arm", "state", "speed-up", "acceptance length", "finding", "baseline tok/s", "engine", "job")
    print_table(head, [_row(night) for night in nights[-_NEWEST:]])
    for at, text in store.annotations_of(database, name):
        print_text(f"{at:%Y-%m-%d %H:%M} UTC: {text}")
    for alarm in alarms:
        print_text(_alarm_words(alarm))


@app.command()
def check(*, as_json: AsJson = False) -> None:
    """Exit with status 1 if an alarm is open, or a series has not been queued for three nights; print which."""
    database, now = ready_database(), datetime.now(UTC)
    silent = {each.series for each in store.all_series(database) if each.is_silent(now)}
    alarms = [alarm for alarm in store.alarms(database) if alarm.is_open and alarm.series not in silent]
    late = [each for each in store.all_series(database) if each.series not in silent and _is_late(each, now)]
    if as_json:
        print_json({"alarms": [vars(alarm) for alarm in alarms], "not_queued": [each.series for each in late]})
    else:
        for alarm in alarms:
            print_text(_alarm_words(alarm))
        for each in late:
            print_text(f"{each.series} has not been queued for {MOST_WITHOUT} nights: is the page running?")
        if not alarms and not late:
            print_text("No alarm is open.")
    raise SystemExit(_OPEN if alarms or late else 0)


@app.command()
def pause(name: Name) -> None:
    """Queue nothing until the series is resumed."""
    store.pause(ready_database(), name, actor=local_actor())
    print_text(f"{name} is paused: `drafthouse series resume {name}` resumes it")


@app.command()
def resume(name: Name) -> None:
    """Resume a paused series from now on."""
    store.resume(ready_database(), name, actor=local_actor())
    print_text(f"{name} is next due at {_next(store.named(ready_database(), name))}")


@app.command()
def remove(name: Name) -> None:
    """End a series; its nights stay in the warehouse."""
    store.remove(ready_database(), name, actor=local_actor())
    print_text(f"{name} has ended")


@app.command()
def acknowledge(
    alarm: AlarmNumber, note: Annotated[str, typer.Argument(help="Why it needs no further alarm.")]
) -> None:
    """Close an alarm with a note."""
    store.acknowledge(ready_database(), alarm, note, actor=local_actor())
    print_text(f"alarm {alarm} is acknowledged")


@app.command()
def silence(
    name: Name,
    until: Annotated[str, typer.Argument(help="2026-12-24 or 2026-12-24T08:00.")],
) -> None:
    """Send no alarms of a series until a date; pages still show them."""
    moment = _moment(until, store.named(ready_database(), name).zone)
    store.silence(ready_database(), name, moment, actor=local_actor())
    print_text(f"no alarm of {name} is sent until {moment:%Y-%m-%d %H:%M} UTC")


@app.command()
def annotate(
    name: Name,
    text: Annotated[str, typer.Argument(help='What happened, such as "driver 580".')],
    at: Annotated[str | None, typer.Option(help="When, like 2026-12-24T08:00; default: now.")] = None,
) -> None:
    """Note on a series' chart what happened."""
    moment = datetime.now(UTC) if at is None else _moment(at, store.named(ready_database(), name).zone)
    store.annotate(ready_database(), name, text, moment, actor=local_actor())
    print_text(f"noted at {moment:%Y-%m-%d %H:%M} UTC")


def _moment(text: str, zone: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"{text!r} is not a date: write it like 2026-12-24 or 2026-12-24T08:00") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=ZoneInfo(zone))).astimezone(UTC)


def _when(found: Series) -> str:
    return found.schedule if found.is_imported else f"every {found.schedule} ({found.zone})"


def _next(found: Series) -> str:
    if found.paused_at is not None:
        return "paused"
    if found.is_imported:
        return "with the next import"
    return f"{found.timetable.next(datetime.now(UTC)).astimezone(ZoneInfo(found.zone)):%Y-%m-%d %H:%M} {found.zone}"


def _is_late(found: Series, now: datetime) -> bool:
    """Return whether nobody has queued it, or noted why not, for as many nights as raise an alarm."""
    if found.paused_at is not None or found.is_imported:
        return False
    nights = store.nights(ready_database(), found.series)
    known = max([found.due_since, *(night.due_at for night in nights)])
    return len(found.timetable.due(known, now)) >= MOST_WITHOUT


def _row(night: Night) -> tuple[object, ...]:
    again = f" {night.night_id[night.night_id.rindex('#') :]}" if night.again_of else ""
    return (
        f"{night.label or f'{night.due_at:%Y-%m-%d %H:%M}'}{again}",
        night.arm,
        _words(night),
        "" if night.speedup is None else ratio(night.speedup, night.low, night.high),
        figure(night.acceptance_length),
        _finding(night),
        figure(night.baseline_tok_per_s),
        night.engine_version,
        night.job_id,
    )


def _words(night: Night) -> str:
    return night.state if night.note is None else f"{night.state}: {night.note}"


def _finding(night: Night) -> str:
    words = dict.fromkeys((night.speedup_finding, night.acceptance_finding))
    return ", ".join(word for word in words if word and word != "usual") or ("usual" if night.speedup_finding else "")


def _alarm_words(alarm: Alarm) -> str:
    closed = f" (acknowledged by {alarm.acknowledged_by}: {alarm.acknowledgement})" if alarm.acknowledged_at else ""
    failed = f" (not sent: {alarm.delivery_error})" if alarm.delivery_error else ""
    head = f"alarm {alarm.alarm_id} of {alarm.series}, {alarm.kind}, {alarm.raised_at:%Y-%m-%d %H:%M} UTC"
    return f"{head}: {alarm.sentence}{closed}{failed}"


def _document(found: Series, nights: list[Night], alarms: list[Alarm]) -> dict[str, object]:
    own = {name: value for name, value in vars(found).items() if name != "study_json"}
    return own | {
        "nights": [vars(night) for night in nights],
        "alarms": [vars(alarm) for alarm in alarms if alarm.series == found.series],
    }
