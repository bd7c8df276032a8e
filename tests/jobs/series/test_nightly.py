"""Series by themselves: nights are claimed once, stored once, measured again if suspicious, and raise alarms."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa

from jobs import queue
from jobs.engines.capabilities import Capabilities
from jobs.fleet import leases
from jobs.series import nightly, store
from jobs.series.store import Night, Plan
from lab.errors import StudyError, UserError
from tests.actors import ADMIN, SUBMITTER
from tests.jobs.series.nights import DAILY, DAY, NIGHT, ONE_CELL, START, add_series, measure, raise_fall, remember
from tests.workers.homes import NGRAM, Home
from warehouse.app_db.schema import nights as nights_table
from warehouse.app_db.schema import series as series_table
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse


@pytest.fixture
def lab(home: Home) -> Home:
    """With a series that is due at two each night, since START."""
    add_series(home)
    return home


def tend(lab: Home, now: datetime) -> list[Night]:
    nightly.tend(lab.settings, lab.database, now)
    return store.nights(lab.database, "nightly")


def end_queued(lab: Home, error: str) -> None:
    job = leases.claim(lab.database, "me", 3600)
    assert job is not None
    leases.finish(lab.database, job.job_id, "me", "failed", error=error)


def test_a_due_night_is_queued_once_whoever_looks(lab: Home) -> None:
    assert tend(lab, START + timedelta(hours=1)) == []
    gate = threading.Barrier(4)

    def look() -> None:
        gate.wait()
        nightly.tend(lab.settings, lab.database, NIGHT)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (night,) = tend(lab, NIGHT + timedelta(minutes=1))
    (job,) = queue.jobs(lab.database)
    assert (night.state, night.job_id, night.due_at) == ("queued", job.job_id, NIGHT.replace(second=0))
    assert job.submitted_by == ADMIN.name


def test_a_kill_before_the_end_of_queueing_leaves_neither_job_nor_night(lab: Home) -> None:
    class KilledError(Exception): ...

    def die(_connection: sa.Connection, _job_id: str) -> None:
        raise KilledError

    with pytest.raises(KilledError):
        queue.submit(lab.settings, lab.study(), actor=ADMIN, within=die)
    assert queue.jobs(lab.database) == []
    (night,) = tend(lab, NIGHT)
    assert night.state == "queued"


def test_nights_are_skipped_while_one_runs_and_missed_while_nobody_looks(lab: Home) -> None:
    tend(lab, NIGHT)
    nights = tend(lab, NIGHT + 3 * DAY)
    assert [night.state for night in nights] == ["queued", "missed", "missed", "skipped"]
    assert "still runs" in (nights[-1].note or "")
    assert tend(lab, NIGHT + 3 * DAY) == nights


def test_a_night_that_is_far_too_late_is_missed(lab: Home) -> None:
    (night,) = tend(lab, NIGHT + timedelta(hours=7))
    assert (night.state, queue.jobs(lab.database)) == ("missed", [])


def test_three_nights_without_data_raise_one_alarm(lab: Home) -> None:
    for number in range(5):
        tend(lab, NIGHT + number * DAY)
        end_queued(lab, "EngineError: no")
        tend(lab, NIGHT + number * DAY + timedelta(hours=1))
        assert len(store.alarms(lab.database)) == (number >= 2)
    (alarm,) = store.alarms(lab.database, "nightly")
    assert (alarm.kind, alarm.night_id) == ("no data", "nightly 2026-06-04T02:00:00Z")
    assert "2026-06-02 02:00 failed: EngineError: no" in alarm.sentence


def test_a_confirmed_fall_raises_one_alarm_and_its_values_stay(lab: Home) -> None:
    remember(lab)
    tend(lab, NIGHT)
    measure(lab, slower=1.3)
    night, again = [each for each in tend(lab, NIGHT) if each.due_at > START]
    assert (night.state, night.speedup_finding) == ("measured", "suspicious")
    assert (again.again_of, again.state) == (night.night_id, "queued")
    assert store.alarms(lab.database) == []
    measure(lab, slower=1.3)
    night, again = [each for each in tend(lab, NIGHT) if each.due_at > START]
    assert night.speedup_finding == "fall"
    assert night.speedup == pytest.approx(0.943, rel=0.02)
    assert night.predicted_low is not None
    assert night.predicted_low > 1.12
    falls = store.alarms(lab.database)
    assert [(alarm.kind, alarm.night_id, alarm.measure) for alarm in falls] == [("fall", night.night_id, "speedup")]
    assert "the speed-up of 'drafted' fell by 1" in falls[0].sentence
    assert tend(lab, NIGHT + timedelta(hours=1))[-2:] == [night, again]
    ingest_all(lab.settings)
    with open_warehouse(lab.settings.warehouse_file) as con:
        told = con.execute("SELECT speedup, speedup_finding FROM nights WHERE night_id = ?", [night.night_id])
        assert told.fetchall() == [(night.speedup, "fall")]
        assert con.execute("SELECT count(*) FROM alarms WHERE kind = 'fall'").fetchone() == (len(falls),)


def test_all_arms_are_watched_by_one_job_and_one_alarm_names_those_that_fell(home: Home) -> None:
    drafts = [{"name": name, "speculation": NGRAM} for name in ("first", "second")]
    study = home.study(**ONE_CELL, arms=[{"name": "plain"}, *drafts])
    store.add(home.settings, home.database, "nightly", study, DAILY, actor=ADMIN)
    with home.database.begin() as connection:
        connection.execute(sa.update(series_table).values(due_since=START))
    remember(home, arm="first")
    remember(home, arm="second")
    for slower in (1.3, 1.3):
        tend(home, NIGHT)
        assert sum(job.state == "queued" for job in queue.jobs(home.database)) == 1
        measure(home, slower)
    nights = [night for night in tend(home, NIGHT) if night.due_at > START]
    assert [(night.arm, night.again_of is None) for night in nights] == [
        *(("first", True), ("first", False), ("second", True), ("second", False)),
    ]
    assert len({night.job_id for night in nights}) == 2
    (alarm,) = store.alarms(home.database)
    assert "the speed-up of 'first' fell by" in alarm.sentence
    assert ". And the speed-up of 'second' fell by" in alarm.sentence


def test_a_measure_that_fell_is_one_alarm_while_the_other_is_measured_again(lab: Home) -> None:
    remember(lab)
    with lab.database.begin() as connection:
        connection.execute(sa.update(nights_table).values(acceptance_length=9.0, acceptance_finding="usual"))
    for _ in range(3):
        tend(lab, NIGHT)
        measure(lab, slower=1.035)
    night, *again = [each for each in tend(lab, NIGHT) if each.due_at > START]
    assert (night.acceptance_finding, night.speedup_finding, len(again)) == ("fall", "suspicious", 3)
    (alarm,) = store.alarms(lab.database)
    assert (alarm.measure, ". And " in alarm.sentence) == ("acceptance_length", False)


def test_a_noisy_night_is_measured_again_and_raises_nothing(lab: Home) -> None:
    remember(lab)
    tend(lab, NIGHT)
    measure(lab, slower=1.3)
    tend(lab, NIGHT)
    measure(lab)
    night, _ = [each for each in tend(lab, NIGHT) if each.due_at > START]
    assert night.speedup_finding == "outlier"
    assert store.alarms(lab.database) == []


def test_a_paused_series_is_not_due_and_resumes_from_now(lab: Home) -> None:
    store.pause(lab.database, "nightly", actor=ADMIN)
    assert tend(lab, NIGHT + 5 * DAY) == []
    store.resume(lab.database, "nightly", actor=ADMIN)
    later = datetime.now(UTC) + 2 * DAY
    assert [night.state for night in tend(lab, later.replace(hour=2, minute=1))][-1] == "queued"


def test_a_night_whose_study_cannot_be_queued_has_failed_with_the_reason(lab: Home) -> None:
    (lab.folder / "model" / "config.json").unlink()
    (night,) = tend(lab, NIGHT)
    assert night.state == "failed"
    assert "target" in (night.note or "")


def test_only_what_can_be_watched_is_added(lab: Home) -> None:
    def add(name: str, actor: object = ADMIN, plan: Plan = DAILY, **study: object) -> None:
        store.add(lab.settings, lab.database, name, lab.study(**study), plan, actor=actor)  # type: ignore[arg-type]

    arms = [
        {"name": "plain"},
        *({"name": f"k{k}", "speculation": {"method": "ngram", "num_speculative_tokens": k}} for k in (1, 2)),
    ]
    with pytest.raises(UserError, match="there is no arm 'k3'; compared with 'plain' are k1, k2"):
        add("two", arms=arms, plan=Plan("hour", arm="k3"))
    with pytest.raises(UserError, match="watches an arm beside the baseline; compared with 'plain' are none"):
        add("none", arms=arms[:1])
    with pytest.raises(UserError, match="there is or was a series nightly"):
        add("nightly")
    with pytest.raises(UserError, match="cannot be a series' name"):
        add("a/b")
    with pytest.raises(UserError, match="not an engine to choose each night"):
        add("engine", plan=Plan("hour", engine="newest"))
    with pytest.raises(StudyError):
        add("no-model", target="/nowhere")
    add("second", actor=SUBMITTER)
    with pytest.raises(UserError, match="is not yours"):
        store.remove(lab.database, "nightly", actor=SUBMITTER)


def test_the_newest_engine_is_the_release_with_the_greatest_numbers() -> None:
    engine = Capabilities(engine="", kind="vllm", version="", methods=(), flags=None, gpus=())
    order = ["0.9.2", "0.14.0rc1", "0.14.0", "v0.14.1+cu128", "0.32.0.dev3", "0.32.0+cpu"]
    shuffled = [engine.model_copy(update={"version": version}) for version in order[::-1]]
    assert [each.version for each in sorted(shuffled, key=nightly._version)] == order


def test_an_alarm_is_acknowledged_once_with_a_note(lab: Home) -> None:
    raise_fall(lab.database, "n", START, "it fell")
    store.acknowledge(lab.database, 1, "known", actor=ADMIN)
    (alarm,) = store.alarms(lab.database)
    assert (alarm.is_open, alarm.acknowledged_by, alarm.acknowledgement) == (False, ADMIN.name, "known")
    with pytest.raises(UserError, match="has acknowledged alarm 1 already"):
        store.acknowledge(lab.database, 1, "again", actor=ADMIN)
