"""Whatever happens to the store, the network or the writer: each bundle is there once, and none is lost."""

from __future__ import annotations

import itertools
import os
import threading
import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from host import quiet
from host.settings import Settings
from tests import processes
from tests.warehouse.asking import ask
from tests.warehouse.runs import request, write_run
from tests.warehouse.store.servers import Store
from tests.workers.homes import until
from warehouse.app_db.stored_objects import newer_than
from warehouse.bundles import uploads
from warehouse.bundles.pending import is_pending, pending_paths
from warehouse.bundles.run_bundle import read_run
from warehouse.bundles.store import ObjectStore, StoreAway
from warehouse.bundles.uploads import fetch_job, prepare, upload_all, uploading
from warehouse.ingest.service import ingest_all

KILLS = 12
#: More than a kernel takes off a process at once.
LARGE_BYTES = 30_000_000


def stored(settings: Settings) -> list[str]:
    assert settings.bundles_url is not None
    return sorted(ObjectStore(settings.bundles_url).paths())


def recorded(database: sa.Engine) -> list[str]:
    return [row.path for row in newer_than(database, 0)]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uploads are tried again soon."""
    monkeypatch.setattr(uploads, "_POLL_EVERY_S", 0.05)
    monkeypatch.setattr(uploads, "_LONGEST_PAUSE_S", 0.1)


def test_a_bundle_waits_here_until_its_manifest_is_there(here: Settings, store: Store, database: sa.Engine) -> None:
    prepare(here)
    folder = write_run(here.bundles)
    store.behave("503")
    with pytest.raises(StoreAway, match="503"):
        upload_all(here, database)
    assert (pending_paths(here.bundles), recorded(database)) == (["job-1/run-1"], [])
    assert read_run(folder).run_id == "run-1"
    store.behave("ok")
    upload_all(here, database)
    assert (pending_paths(here.bundles), recorded(database), stored(here)) == ([], ["job-1/run-1"], ["job-1/run-1"])


@pytest.mark.usefixtures("impatient")
def test_faults_of_every_kind_lose_and_double_nothing(here: Settings, store: Store, database: sa.Engine) -> None:
    store.behave("mixed")
    with uploading(here, database):
        for number in range(8):
            write_run(here.bundles, run_id=f"run-{number}")
        until(lambda: not pending_paths(here.bundles), "all bundles are uploaded through the faults")
    store.behave("ok")
    paths = [f"job-1/run-{number}" for number in range(8)]
    assert stored(here) == sorted(recorded(database)) == paths


def test_pauses_grow_while_the_store_is_away(
    here: Settings, store: Store, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = list[float]()

    def noted(_self: uploads.Uploads, _stop: threading.Event) -> None:
        tried.append(time.monotonic())
        raise StoreAway("away")

    monkeypatch.setattr(uploads, "_POLL_EVERY_S", 0.05)
    monkeypatch.setattr(uploads.Uploads, "upload_pending", noted)
    with uploading(here, database):
        until(lambda: len(tried) >= 6, "six attempts")
    pauses = [after - before for before, after in itertools.pairwise(tried[:6])]
    assert all(pause >= 0.025 * 2 ** (number + 1) for number, pause in enumerate(pauses))


def sent_bytes(store: Store) -> int:
    return sum(size for *_, size in store.requests())


def is_silent(store: Store) -> bool:
    """Return whether nothing is sent for half a second."""
    before = sent_bytes(store)
    time.sleep(0.5)
    return sent_bytes(store) == before


@pytest.mark.usefixtures("impatient")
def test_a_window_ends_an_upload_which_goes_on_after_it(here: Settings, store: Store, database: sa.Engine) -> None:
    prepare(here)
    (write_run(here.bundles) / "engine.log").write_bytes(os.urandom(LARGE_BYTES))
    store.behave("held")
    with uploading(here, database):
        until(lambda: sent_bytes(store) > LARGE_BYTES // 20, "the upload is under way")
        with quiet.announced(here.home, "window", "a run"):
            until(lambda: not quiet.under_way(here.home, "ingest"), "the upload has ended")
            store.behave("ok")
            until(lambda: is_silent(store), "what the kernel had is sent")
            assert sent_bytes(store) < LARGE_BYTES // 2
            assert recorded(database) == []
        until(lambda: recorded(database), "the bundle is uploaded after the window")
    assert stored(here) == ["job-1/run-1"]


def test_a_writer_that_was_second_keeps_the_first_ones_bundle(
    here: Settings, elsewhere: Settings, database: sa.Engine
) -> None:
    for settings, text in ((here, "first"), (elsewhere, "second")):
        prepare(settings)
        write_run(settings.bundles, (request(output_text=text),))
    upload_all(here, database)
    upload_all(elsewhere, database)
    first, second = (settings.bundles / "job-1" / "run-1" / "requests.parquet" for settings in (here, elsewhere))
    assert first.read_bytes() == second.read_bytes()
    assert (recorded(database), pending_paths(elsewhere.bundles)) == (["job-1/run-1"], [])


def test_a_lab_that_gets_a_store_uploads_what_it_has(here: Settings, database: sa.Engine) -> None:
    write_run(here.bundles, run_id="old")
    prepare(here)
    write_run(here.bundles, run_id="new")
    assert all(is_pending(here.bundles, f"job-1/{run_id}") for run_id in ("old", "new"))
    upload_all(here, database)
    assert stored(here) == ["job-1/new", "job-1/old"]


def test_a_host_without_a_warehouse_removes_old_copies_of_what_is_in_the_store(
    elsewhere: Settings, database: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert elsewhere.bundles_url is not None
    monkeypatch.setattr(uploads, "_COPIES_LAST_S", -1.0)
    monkeypatch.setattr(uploads, "_REMOVE_COPIES_EVERY_S", -1.0)
    prepare(elsewhere)
    stored_run = write_run(elsewhere.bundles, run_id="stored")
    upload_all(elsewhere, database)
    waiting_run = write_run(elsewhere.bundles, run_id="waits")
    ours = uploads.Uploads(elsewhere, database, ObjectStore(elsewhere.bundles_url))
    elsewhere.master_file.unlink()  # as after the publication of a large one, until the next is made
    ours._remove_copies()
    assert stored_run.exists()
    elsewhere.warehouse_file.unlink()
    ours._remove_copies()
    assert (stored_run.exists(), waiting_run.exists()) == (False, True)
    fetch_job(elsewhere, database, "job-1")
    assert read_run(stored_run).run_id == "stored"


def test_a_manifest_without_a_row_is_recorded_at_the_next_start(here: Settings, database: sa.Engine) -> None:
    prepare(here)
    write_run(here.bundles)

    def killed(*_: object) -> None:
        raise OSError("killed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warehouse.app_db.stored_objects.record", killed)
        with pytest.raises(OSError, match="killed"):
            upload_all(here, database)
    assert (stored(here), recorded(database)) == (["job-1/run-1"], [])
    upload_all(here, database)
    assert recorded(database) == ["job-1/run-1"]


@pytest.mark.engine
def test_writers_killed_at_any_line_lose_and_double_nothing(
    here: Settings, store: Store, database: sa.Engine, tmp_path: Path
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTHOUSE_")}
    environment |= {"DRAFTHOUSE_BUNDLES": store.url}
    printed, module = tmp_path / "killed", "tests.warehouse.store.killed_uploads"
    arguments = (str(here.home), str(KILLS))
    killing = processes.start(module, *arguments, environment=environment, folder=tmp_path, output=printed)
    assert killing.wait(800) == 0, printed.read_text()
    assert int(printed.read_text().split()[-1]) >= KILLS // 2
    upload_all(here, database)
    paths = sorted([*(f"job-1/run-{number}" for number in range(KILLS)), "job-1/cold", "job-1/warm"])
    assert stored(here) == sorted(recorded(database)) == paths
    assert pending_paths(here.bundles) == []
    ingest_all(here)
    assert ask(here, "select count(*), count(distinct run_id) from runs") == [(len(paths), len(paths))]


@pytest.mark.engine
@pytest.mark.usefixtures("impatient")
def test_writers_killed_at_any_moment_of_a_bad_network_lose_nothing(
    here: Settings, store: Store, database: sa.Engine, tmp_path: Path
) -> None:
    store.behave("mixed")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRAFTHOUSE_")}
    environment |= {"DRAFTHOUSE_BUNDLES": store.url, "DRAFTHOUSE_HOME": str(here.home)}
    prepare(here)
    for number in range(4):
        write_run(here.bundles, run_id=f"run-{number}")
        log = tmp_path / f"ingester-{number}.log"
        module = "warehouse.ingest.service"
        process = processes.start(module, environment=environment, folder=tmp_path, output=log)
        until(lambda log=log: b"ingesting" in log.read_bytes(), "the ingester, which uploads too, is up")  # type: ignore[misc]
        time.sleep(0.1 * number)  # the moment of death, nothing waits for it
        process.kill()
        process.wait()
    store.behave("ok")
    upload_all(here, database)
    assert stored(here) == sorted(recorded(database)) == [f"job-1/run-{number}" for number in range(4)]
