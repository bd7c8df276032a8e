"""A lab whose hosts share only a database and an object store: it sees each run, and is rebuilt from the store."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from access.local import local_actor
from host.settings import Settings
from interchange.store import import_paths
from jobs import curation
from jobs.engine_logs import log_tail
from tests.actors import ADMIN
from tests.processes import REPOSITORY
from tests.warehouse.app_jobs import add_job
from tests.warehouse.asking import ask, contents
from tests.warehouse.runs import failed_request, request, write_run
from tests.warehouse.store.servers import Store
from tests.warehouse.studies import ROUNDS, RunSpec, write
from warehouse.app_db.schema import jobs as jobs_table
from warehouse.bundles import uploads
from warehouse.bundles.removed import remove_job
from warehouse.bundles.store import ObjectStore, StoreAway, open_store
from warehouse.bundles.uploads import announce_pending, fetch_job, prepare, upload_all
from warehouse.ingest import new_bundles
from warehouse.ingest.master import only_ingester
from warehouse.ingest.rebuild import rebuild
from warehouse.ingest.service import ingest_all, ingest_once, open_ingester

REQUESTS = (request(), failed_request(index=1))
SAMPLE = REPOSITORY / "tests" / "interchange" / "samples" / "vllm-bench" / "base-code-c1.json"


def measure(settings: Settings, runs: int, job_id: str = "job-1") -> None:
    prepare(settings)
    for number in range(runs):
        write_run(settings.bundles, REQUESTS, run_id=f"{job_id}-run-{number}", job_id=job_id)


def test_runs_of_another_host_are_ingested_without_a_listing(
    here: Settings, elsewhere: Settings, store: Store, database: sa.Engine
) -> None:
    measure(elsewhere, 3)
    ingest_all(here)
    assert ask(here, "select * from runs") == []
    upload_all(elsewhere, database)
    ingest_all(here)
    assert ask(here, "select run_id from runs order by 1") == [(f"job-1-run-{number}",) for number in range(3)]
    assert not [path for _, method, path, _ in store.requests() if method == "GET" and "list-type" in path]


def test_a_warehouse_rebuilt_from_the_store_equals_that_of_a_folder(
    settings: Settings, here: Settings, elsewhere: Settings, database: sa.Engine
) -> None:
    for number in range(3):
        measure(settings, 2, job_id=f"job-{number}")
    ingest_all(settings)
    by_folder = contents(settings)
    prepare(here)
    upload_all(here, database)
    rebuild(elsewhere)
    assert contents(elsewhere) == by_folder
    assert len(by_folder["runs"]) == 6


def test_what_still_waits_for_its_upload_is_not_rebuilt(here: Settings, database: sa.Engine) -> None:
    measure(here, 1)
    upload_all(here, database)
    measure(here, 1, job_id="waits")
    rebuild(here)
    assert ask(here, "select job_id from runs") == [("job-1",)]


def study(settings: Settings, *repeats: int) -> None:
    """Two arms, one after the other, of job-1."""
    prepare(settings)
    for repeat in repeats:
        for spec in (RunSpec("plain", repeat), RunSpec("drafted", repeat, pace=0.5, rounds=ROUNDS)):
            write(settings, spec, job_id="job-1")


def end_job(database: sa.Engine) -> None:
    with database.begin() as connection:
        add_job(connection, "job-1")
        connection.execute(jobs_table.update().values(state="done", finished_at=datetime.now(UTC)))


def test_a_job_is_judged_only_with_the_runs_that_another_host_still_has(
    here: Settings, elsewhere: Settings, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    study(here, 0, 1)
    study(elsewhere, 2)
    upload_all(here, database)
    announce_pending(elsewhere, database, "job-1")
    end_job(database)
    ingest_all(here)
    assert ask(here, "select count(*) from runs") == [(4,)]
    assert ask(here, "select job_id from judgements") == []
    with pytest.raises(StoreAway, match="has not uploaded 2 runs of job-1 yet"):
        fetch_job(here, database, "job-1")
    with monkeypatch.context() as later:
        later.setattr(uploads, "_AWAITED_FOR_S", 0.0)
        fetch_job(here, database, "job-1")
    upload_all(elsewhere, database)
    ingest_all(here)
    assert ask(here, "select job_id, len(run_ids) from judgements") == [("job-1", 6)]


def test_a_verdict_goes_the_same_way(here: Settings, elsewhere: Settings, database: sa.Engine) -> None:
    study(here, 0, 1)
    upload_all(here, database)
    end_job(database)
    ingest_all(here)
    ingest_all(elsewhere)
    judged = "select judgement_id, judged_at from judgements"
    assert ask(here, judged) == ask(elsewhere, judged) != []
    rebuild(elsewhere)
    assert ask(here, judged) == ask(elsewhere, judged)


def keys(bucket: ObjectStore) -> list[str]:
    """The keys of all that is in the store."""
    import obstore  # noqa: PLC0415 - of this test alone

    return [item["path"] for page in obstore.list(bucket._store) for item in page]


def test_results_that_are_removed_are_gone_everywhere_and_come_back(
    here: Settings, elsewhere: Settings, database: sa.Engine
) -> None:
    prepare(here)
    (job_id,) = import_paths(here, [SAMPLE], actor=ADMIN).jobs
    counts = "select count(*) from runs"
    for settings in (here, elsewhere):
        ingest_all(settings)
        assert ask(settings, counts) == [(1,)]
    curation.delete(here, database, job_id, actor=ADMIN)
    for settings in (here, elsewhere):
        ingest_all(settings)
        assert ask(settings, counts) == [(0,)]
    rebuild(elsewhere)
    assert ask(elsewhere, counts) == [(0,)]
    curation.restore(here, database, job_id, actor=ADMIN)
    for settings in (here, elsewhere):
        ingest_all(settings)
        assert ask(settings, counts) == [(1,)]
    was = list((here.bundles / job_id).iterdir())
    curation.delete(here, database, job_id, actor=ADMIN)
    curation.purge(here, database, job_id, actor=local_actor())
    bucket = open_store(here)
    assert bucket is not None
    assert (bucket.paths(job_id), [bucket.put_back(f"{job_id}/{path.name}") for path in was]) == ([], [None])
    assert [key for key in keys(bucket) if job_id in key] == []
    for settings in (here, elsewhere):
        ingest_all(settings)
        assert ask(settings, counts) == [(0,)]


def test_what_was_removed_may_be_imported_again_with_other_labels(
    here: Settings, elsewhere: Settings, database: sa.Engine
) -> None:
    prepare(here)

    def hardware() -> list[list[tuple[str]]]:
        for settings in (here, elsewhere):
            ingest_all(settings)
        query = "select hardware from results where origin = 'imported'"
        return [ask(settings, query) for settings in (here, elsewhere)]

    for label in ("A100", "H200"):
        (job_id,) = import_paths(here, [SAMPLE], labels={"hardware": label}, actor=ADMIN).jobs
        assert hardware() == [[(label,)], [(label,)]]
        curation.delete(here, database, job_id, actor=ADMIN)
        assert hardware() == [[], []]
    curation.restore(here, database, job_id, actor=ADMIN)
    assert hardware() == [[("H200",)], [("H200",)]]
    rebuild(elsewhere)
    assert hardware() == [[("H200",)], [("H200",)]]


def test_a_removed_run_that_is_imported_again_stays_until_it_is_uploaded(
    here: Settings, store: Store, database: sa.Engine
) -> None:
    prepare(here)
    (job_id,) = import_paths(here, [SAMPLE], actor=ADMIN).jobs
    ingest_all(here)
    curation.delete(here, database, job_id, actor=ADMIN)
    ingest_all(here)
    import_paths(here, [SAMPLE], actor=ADMIN)
    store.behave("503")
    with only_ingester(here.home), open_ingester(here, database) as ingester:
        ingest_once(ingester)
    store.behave("ok")
    ingest_all(here)
    assert ask(here, "select count(*) from results where origin = 'imported'") == [(1,)]


def test_a_job_is_judged_without_a_run_whose_host_was_lost_a_day_ago(
    here: Settings, elsewhere: Settings, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    study(here, 0, 1)
    study(elsewhere, 2)
    announce_pending(elsewhere, database, "job-1")
    end_job(database)
    ingest_all(here)
    assert ask(here, "select job_id from judgements") == []
    monkeypatch.setattr(new_bundles, "_ANNOUNCED_FOR_S", 0.0)
    ingest_all(here)
    assert ask(here, "select job_id, len(run_ids) from judgements") == [("job-1", 4)]


def test_results_come_back_though_the_ingester_moved_them_aside_first(
    here: Settings, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(here)
    (job_id,) = import_paths(here, [SAMPLE], actor=ADMIN).jobs
    ingest_all(here)

    def is_second(bundles: Path, job_id: str) -> None:
        ingest_all(here)
        remove_job(bundles, job_id)

    with monkeypatch.context() as patched:
        patched.setattr("interchange.store.remove_job", is_second)
        curation.delete(here, database, job_id, actor=ADMIN)
    assert ask(here, "select count(*) from runs") == [(0,)]
    curation.restore(here, database, job_id, actor=ADMIN)
    ingest_all(here)
    assert ask(here, "select count(*) from results where origin = 'imported'") == [(1,)]


def test_an_outage_of_the_app_database_is_logged_once(
    here: Settings, database: sa.Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with only_ingester(here.home), open_ingester(here, database) as ingester:
        with database.begin() as connection:
            connection.execute(sa.text("ALTER TABLE stored_objects RENAME TO gone"))
        for _ in range(3):
            ingest_once(ingester)
    assert len([record for record in caplog.records if "new runs are not seen" in record.message]) == 1


def test_the_log_of_a_run_is_read_through_the_store(here: Settings, elsewhere: Settings, database: sa.Engine) -> None:
    measure(here, 1)
    (here.bundles / "job-1" / "job-1-run-0" / "engine.log").write_text("INFO the engine is up\n")
    upload_all(here, database)
    assert log_tail(elsewhere, "job-1") == "INFO the engine is up"
    assert log_tail(elsewhere, "another") == ""
