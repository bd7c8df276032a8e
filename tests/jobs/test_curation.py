"""What people do with studies, own and imported: name, note, tag, hide, delete, restore and purge them."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from access import shared_links
from access.local import local_actor
from access.shared_links import Kind
from host.settings import Settings
from interchange.store import import_paths
from jobs import curation, queue
from lab.errors import AccessError, UnknownNameError, UserError
from tests.actors import ADMIN, OTHER_SUBMITTER, SUBMITTER, VIEWER
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.warehouse.asking import ask
from tests.webapp.homes import make_home
from tests.webapp.measured import measure_study
from warehouse.app_db import audit, curated, dashboards, pins
from warehouse.app_db.schema import jobs
from warehouse.bundles.removed import remove_job
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.answers import headlines
from warehouse.queries.comparing.paired_runs import jobs_of
from warehouse.queries.connect import open_warehouse
from warehouse.queries.results import jobs_with_results
from warehouse.queries.slices import Filters, runs

SAMPLE = SAMPLES / "vllm-bench" / "spec-code-c4.json"
ONE_LOAD = [{"max_concurrency": 1, "num_prompts": 4}]
VERDICTS = "select * from comparisons where job_id = 'ID' order by all"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return make_home(tmp_path)


@pytest.fixture
def job_id(settings: Settings) -> str:
    return measure_study(settings, study(name="mine", repeats=2, loads=ONE_LOAD))


def of_sam(database: sa.Engine, job_id: str) -> None:
    with database.begin() as connection:
        connection.execute(jobs.update().where(jobs.c.job_id == job_id).values(submitted_by=SUBMITTER.name))


def listed(settings: Settings) -> list[tuple[str, bool]]:
    with open_warehouse(settings.warehouse_file) as con:
        found = jobs_with_results(con)
        return list(zip(found["study_name"], found["is_hidden"], strict=True))


def test_a_name_note_and_tags_reach_every_reader(settings: Settings, database: sa.Engine, job_id: str) -> None:
    changed = curation.change(
        database, job_id, actor=ADMIN, name=" ours, idle host ", note="second fan broken\n", tags=["prod", "vllm-0.32"]
    )
    assert (changed.name, changed.note, changed.tags) == ("ours, idle host", "second fan broken", ("prod", "vllm-0.32"))
    ingest_all(settings)
    tags = ("prod", "pro", "PROD", "vllm-0.32", "vllm_0.32")
    assert [len(queue.page(database, tag=tag).jobs) for tag in tags] == [1, 0, 0, 1, 0]
    assert queue.job_id_of(database, "ours, idle host") == job_id
    rows = ask(settings, f"select distinct study_name, tags, is_hidden from results where job_id = '{job_id}'")
    assert rows == [("ours, idle host", ["prod", "vllm-0.32"], False)]
    assert ask(settings, "select note, tags from curated_studies") == [("second fan broken", "prod,vllm-0.32")]
    assert ask(settings, f"select distinct study from comparisons where job_id = '{job_id}'") == [("ours, idle host",)]
    with open_warehouse(settings.warehouse_file) as con:
        assert jobs_of(con, "ours, idle host") == [job_id]
        assert set(runs(con, Filters((("tag", ("prod", "else")),)), [])["job_id"]) == {job_id}
        assert runs(con, Filters((("tag", ("else",)),)), []).empty
        old_link = Filters((("study", (f"mine · {job_id}",)),))
        assert set(runs(con, old_link, [])["study"]) == {f"ours, idle host · {job_id}"}
    curation.change(database, job_id, actor=ADMIN, name="")
    assert queue.job_id_of(database, "mine") == job_id
    assert curated.find(database, job_id).note == "second fan broken"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "two\nlines"}, "one line of at most 200"),
        ({"name": "x" * 201}, "one line of at most 200"),
        ({"note": "x" * 4001}, "at most 4,000 characters.* has 4,001"),
        ({"note": "\0"}, "no NUL"),
        ({"tags": ["a,b"]}, "'a,b' cannot be a tag: a tag begins with a letter"),
        ({"tags": ["x" * 41]}, "up to 40 letters"),
        ({"tags": [f"t{number}" for number in range(21)]}, "20 tags at most: these are 21"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_changes_nothing(
    database: sa.Engine, changes: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        curation.change(database, "a-job", actor=ADMIN, **changes)  # type: ignore[arg-type]
    assert curated.all_curated(database) == []


def test_a_hidden_study_leaves_lists_and_no_number_changes(
    settings: Settings, database: sa.Engine, job_id: str
) -> None:
    later = measure_study(settings, study(name="later", repeats=3, loads=ONE_LOAD))
    before = {job: ask(settings, VERDICTS.replace("ID", job)) for job in (job_id, later)}
    assert before[later]
    curation.change(database, job_id, actor=ADMIN, hidden=True)
    ingest_all(settings)
    assert [job.job_id for job in queue.jobs(database)] == [later]
    assert [job.job_id for job in queue.page(database).jobs] == [later]
    assert {job.job_id for job in queue.page(database, hidden=True).jobs} == {job_id, later}
    assert [job.job_id for job in queue.ended(database, 9)] == [later]
    assert queue.job(database, job_id).name == "mine"
    assert dict(listed(settings)) == {"mine": True, "later": False}
    assert {job: ask(settings, VERDICTS.replace("ID", job)) for job in (job_id, later)} == before
    with open_warehouse(settings.warehouse_file) as con:
        assert set(runs(con, Filters((("origin", ("measured",)),)), [])["job_id"]) == {later}
        assert set(runs(con, Filters((("study", (job_id,)),)), [])["job_id"]) == {job_id}
        assert {headline.job_id for headline in headlines(con)} == {later}
    curation.change(database, job_id, actor=ADMIN, hidden=False)
    assert len(queue.jobs(database)) == 2


def test_a_deleted_study_leaves_every_reader_and_comes_back_as_it_was(
    settings: Settings, database: sa.Engine, job_id: str
) -> None:
    curation.change(database, job_id, actor=ADMIN, tags=["kept"])
    ingest_all(settings)
    views = ("results", "valid_latest_runs", "requests", "comparisons", "answers")

    def shown() -> dict[str, list[tuple[object, ...]]]:
        key = {"requests": "run_id"}
        return {
            view: ask(settings, f"select * from {view} where job_id = '{job_id}' order by {key.get(view, 'all')}")
            for view in views
        }

    before = shown()
    assert all(before.values())
    for _ in range(2):  # repeating it changes nothing
        curation.delete(settings, database, job_id, actor=ADMIN)
    ingest_all(settings)
    assert not any(shown().values())
    assert listed(settings) == []
    assert [*queue.page(database, hidden=True).jobs, *queue.ended(database, 9), *queue.jobs(database)] == []
    with pytest.raises(UnknownNameError, match=rf"was deleted by ada on .*study restore {job_id}` brings it back"):
        queue.job(database, job_id)
    with pytest.raises(UnknownNameError, match="study restore"):
        curation.study_of(settings, database, job_id)
    with pytest.raises(UnknownNameError, match="there is no job 'mine'"):
        curation.study_of(settings, database, "mine")
    for refused in (
        lambda: queue.retry(database, job_id, actor=ADMIN, everything=True),
        lambda: curation.change(database, job_id, actor=ADMIN, note="late"),
    ):
        with pytest.raises(UserError, match="was deleted by ada"):
            refused()
    assert [one.called for one in curation.deleted(database)] == ["mine"]
    assert curation.restore(settings, database, "mine", actor=ADMIN) == job_id
    ingest_all(settings)
    assert shown() == before
    done = [entry.detail for entry in audit.newest(database, 3)][::-1]
    assert done == [{"tags": ["kept"]}, {"deleted": True}, {"restored": True}]


def test_verdicts_informed_by_a_deleted_study_stay_and_say_so(
    settings: Settings, database: sa.Engine, job_id: str
) -> None:
    later = measure_study(settings, study(name="later", repeats=3, loads=ONE_LOAD))
    (informed,) = ask(
        settings,
        f"select list_contains(any_value(history_jobs), '{job_id}') from judged_metrics "
        f"where judgement_id like '{later}%'",
    )
    numbers = f"select * exclude (changed_because) from comparisons where job_id = '{later}' order by all"
    before = ask(settings, numbers)
    curation.delete(settings, database, job_id, actor=ADMIN)
    ingest_all(settings)
    assert ask(settings, numbers) == before
    because = ask(settings, f"select distinct changed_because from comparisons where job_id = '{later}'")
    assert because == [("1 study that informed the noise was deleted" if informed[0] else None,)]


def test_an_import_is_deleted_restored_and_imported_anew(settings: Settings, database: sa.Engine) -> None:
    (job_id,) = import_paths(settings, [SAMPLE], labels={"study": "theirs"}, actor=SUBMITTER).jobs
    ingest_all(settings)
    assert curation.study_of(settings, database, "theirs") == job_id
    with pytest.raises(AccessError, match="it belongs to sam"):
        curation.delete(settings, database, job_id, actor=OTHER_SUBMITTER)
    curation.delete(settings, database, job_id, actor=SUBMITTER)
    ingest_all(settings)
    assert listed(settings) == []
    assert [one.called for one in curation.deleted(database)] == ["theirs"]
    curation.restore(settings, database, "theirs", actor=SUBMITTER)
    ingest_all(settings)
    assert listed(settings) == [("theirs", False)]
    curation.delete(settings, database, job_id, actor=SUBMITTER)
    labels = {"study": "theirs", "hardware": "H200"}
    with pytest.raises(AccessError, match="which belongs to sam"):
        import_paths(settings, [SAMPLE], labels=labels, actor=OTHER_SUBMITTER)
    assert curated.find(database, job_id).deleted_at is not None
    again = import_paths(settings, [SAMPLE], labels=labels, actor=ADMIN)
    ingest_all(settings)
    assert ask(settings, "select hardware from results where origin = 'imported'") == [("H200",)]
    assert again.new_run_ids
    assert curated.find(database, job_id).owner == "sam"


def test_nobody_imports_runs_into_a_study_that_somebody_else_imported(settings: Settings, database: sa.Engine) -> None:
    (job_id,) = import_paths(settings, [SAMPLE], labels={"study": "theirs"}, actor=SUBMITTER).jobs
    others = SAMPLE.with_name("base-code-c4.json")
    with pytest.raises(AccessError, match=r"imported study 'theirs', which belongs to sam: .* the label study=NAME"):
        import_paths(settings, [others], labels={"study": "theirs", "arm": "far faster"}, actor=OTHER_SUBMITTER)
    ingest_all(settings)
    assert ask(settings, "select count(*) from runs where origin = 'imported'") == [(1,)]
    assert import_paths(settings, [SAMPLE], labels={"study": "theirs"}, actor=OTHER_SUBMITTER).new_run_ids == ()
    assert import_paths(settings, [others], labels={"study": "mine"}, actor=OTHER_SUBMITTER).jobs != (job_id,)
    ours = SAMPLE.with_name("base-random-c4.json")
    assert import_paths(settings, [ours], labels={"study": "theirs"}, actor=SUBMITTER).jobs == (job_id,)


def test_a_deletion_that_was_killed_before_the_files_moved_is_whole(settings: Settings, database: sa.Engine) -> None:
    (job_id,) = import_paths(settings, [SAMPLE], actor=ADMIN).jobs
    with database.begin() as connection:  # as `delete` does, and no more
        row = replace(curated.read(connection, job_id), called="it", deleted_at=datetime.now(UTC), deleted_by="ada")
        curated.store(connection, row)
    ingest_all(settings)
    assert listed(settings) == []
    curation.restore(settings, database, "it", actor=ADMIN)
    ingest_all(settings)
    assert len(listed(settings)) == 1


def test_only_its_submitter_or_an_administrator_changes_a_study(
    settings: Settings, database: sa.Engine, job_id: str
) -> None:
    of_sam(database, job_id)
    for actor in (OTHER_SUBMITTER, VIEWER):
        with pytest.raises(AccessError):
            curation.change(database, job_id, actor=actor, note="mine now")
        with pytest.raises(AccessError):
            curation.delete(settings, database, job_id, actor=actor)
    curation.delete(settings, database, job_id, actor=SUBMITTER)
    with pytest.raises(AccessError):
        curation.restore(settings, database, job_id, actor=OTHER_SUBMITTER)
    curation.restore(settings, database, job_id, actor=SUBMITTER)
    with pytest.raises(AccessError, match="only an administrator of the lab's own host"):
        curation.purge(settings, database, job_id, actor=ADMIN)


def test_what_is_queued_or_unknown_is_not_deleted(settings: Settings, database: sa.Engine) -> None:
    queued = queue.submit(settings, study(name="waiting"), actor=ADMIN)
    with pytest.raises(UserError, match=f"{queued} is queued: cancel it before"):
        curation.delete(settings, database, queued, actor=ADMIN)
    for unknown in ("nothing", "../x"):
        with pytest.raises(UnknownNameError):
            curation.delete(settings, database, unknown, actor=ADMIN)
        with pytest.raises(UnknownNameError, match="no deleted study is called"):
            curation.restore(settings, database, unknown, actor=ADMIN)
    queue.cancel(database, queued, actor=ADMIN)


def test_a_purge_removes_bundles_and_verdicts_and_goes_on_after_a_kill(
    settings: Settings, database: sa.Engine, job_id: str
) -> None:
    later = measure_study(settings, study(name="later", repeats=3, loads=ONE_LOAD))
    with pytest.raises(UnknownNameError, match="no deleted study"):
        curation.purge(settings, database, job_id, actor=local_actor())
    curation.delete(settings, database, job_id, actor=ADMIN)
    assert curation.due_for_purging(database, datetime.now(UTC)) == []
    due = curation.due_for_purging(database, datetime.now(UTC) + timedelta(days=31))
    assert [one.job_id for one in due] == [job_id]
    remove_job(settings.bundles, job_id)  # as `purge` does before it deletes
    for _ in range(2):
        curation.purge(settings, database, job_id, actor=local_actor())
    ingest_all(settings)
    assert [path for path in settings.home.rglob("*") if job_id in path.name and path.is_file()] == []
    assert ask(settings, "select distinct job_id from runs where origin = 'measured'") == [(later,)]
    assert ask(settings, "select distinct job_id from judgements") == [(later,)]
    with pytest.raises(UserError, match=r"was purged on .*: its bundles are gone"):
        curation.restore(settings, database, job_id, actor=ADMIN)


def test_a_study_that_is_purged_while_somebody_restores_it_stays_gone(
    settings: Settings, database: sa.Engine, job_id: str
) -> None:
    curation.delete(settings, database, job_id, actor=ADMIN)
    with ThreadPoolExecutor(1) as threads:
        with curated.changing(database) as connection:
            restoring = threads.submit(curation.restore, settings, database, job_id, actor=ADMIN)
            time.sleep(0.5)  # by now it has read that nothing is purged, and waits for this transaction
            purged = replace(curated.read(connection, job_id), purged_at=datetime.now(UTC))
            curated.store(connection, purged)
        with pytest.raises(UserError, match=r"was purged on .*: its bundles are gone"):
            restoring.result(60)
    assert curated.find(database, job_id) == purged


def test_what_depends_on_a_study_is_named(settings: Settings, database: sa.Engine, job_id: str) -> None:
    assert curation.dependents(settings, database, job_id) == []
    board = dashboards.create(database, "Weekly", actor=ADMIN)
    for figure in ("speedup", "throughput"):
        shown = pins.PinnedFigure("results", {"job": (f"mine · {job_id}",)}, figure)
        pins.add(database, board, shown, "", actor=ADMIN)
    day = timedelta(days=1)
    shared_links.make_link(database, Kind.STUDY, job_id, "mine", lasts=day, most=day, actor=ADMIN)
    run_id = ask(settings, "select min(run_id) from runs")[0][0]
    shared_links.make_link(database, Kind.RUN, run_id, "a run", lasts=day, most=day, actor=ADMIN)
    assert curation.dependents(settings, database, job_id) == [
        "2 pins on the dashboard Weekly",
        "2 shared links to it or its runs",
    ]
