"""What a run records beside its requests: host and engine each second, its identity, the settings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import queue
from jobs.engines.hardware import nvidia_gpus
from jobs.fleet import leases
from lab.study.cell_ids import Contents
from lab.study.plan import plan
from tests.actors import ADMIN
from tests.warehouse.runs import write_run
from tests.workers.homes import Home, new_home, worked
from warehouse.bundles.run_bundle import LOG_FILE, Bundle, find_bundles, read_bundle
from workers import run_recorder
from workers.engine_runtime import engine_key, launch
from workers.job_progress import JobStatus
from workers.run_recorder import BundleWriter, Recorder
from workers.worker import Worker

STREAMS = 2
ONE_LOAD = [{"max_concurrency": 1, "num_prompts": 4}]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[Bundle]:
    """A run of one request of some seconds in each of two streams."""
    with new_home(tmp_path_factory.mktemp("watched"), migrated) as home:
        loads = [{"max_concurrency": STREAMS, "num_prompts": STREAMS}]
        worked(home, arms=[{"name": "plain"}], loads=loads, engine_flags={"token_s": 0.4})
        (folder,) = find_bundles(home.settings.bundles)
        yield read_bundle(folder)


def test_every_second_has_figures_of_the_host_and_null_without_a_gpu(watched: Bundle) -> None:
    assert len(watched.telemetry) >= 2
    for sample in watched.telemetry:
        assert sample.host_cpu_percent is not None
        assert sample.host_memory_used_bytes is not None
    if not nvidia_gpus():
        assert {sample.gpu_power_w for sample in watched.telemetry} == {None}
        assert (watched.run.circumstances.gpus, watched.run.circumstances.gpus_found_by) == ((), None)


def test_the_window_is_marked_in_the_engines_log(watched: Bundle) -> None:
    begin, end = watched.run.log_begin_bytes, watched.run.log_end_bytes
    assert begin is not None
    assert end is not None
    assert begin <= end <= len((watched.folder / LOG_FILE).read_bytes())


def test_the_engines_own_queue_is_asked_for_each_second(watched: Bundle) -> None:
    """A busy machine may miss a second or two."""
    told = {(sample.engine_running, sample.engine_waiting, sample.kv_cache_usage) for sample in watched.telemetry}
    assert (STREAMS, 0, 0.25) in told


def test_a_cell_has_one_identity_in_every_study_and_other_cells_others(home: Home) -> None:
    worked(home)
    worked(home, name="another", repeats=2, arms=[{"name": "renamed", "baseline": True}])
    by_cell: dict[str, set[str]] = {}
    for run in home.runs():
        assert run.identity is not None
        assert run.identity.dataset_digest is not None
        by_cell.setdefault(run.identity.cell_id, set()).add(run.study_name)
    assert sorted(map(sorted, by_cell.values())) == [["another", "test study"]] * 2 + [["test study"]] * 2
    assert {run.prompts_seed for run in home.runs()} == {0}


def test_the_settings_are_stored_with_each_run_without_secrets_or_people(home: Home) -> None:
    secrets = {
        "broker_url": "redis://:hunter2@127.0.0.1:1/0",
        "token": "drafthouse_hunter2",
        "alarm_webhook": "https://hooks.example.org/hunter2",
        "alarm_smtp": "smtps://lab:hunter2@mail.example.org",
        "alarm_email_to": "hunter2@example.org",
        "alarm_email_from": "hunter2@example.org",
    }
    settings = home.settings.model_copy(update=secrets)
    queue.submit(settings, home.study(arms=[{"name": "plain"}], loads=ONE_LOAD), actor=ADMIN)
    Worker(settings).work()
    for folder in find_bundles(home.settings.bundles):
        assert "hunter2" not in (folder / "run.json").read_text()
        stored = read_bundle(folder).run.circumstances.settings
        assert stored["request_timeout_s"] == settings.request_timeout_s
        assert not {*secrets, "database_url"} & set(stored)


def test_an_engines_key_is_its_own_and_stands_in_no_file(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in refuses whoever does not send it."""
    keys = [engine_key.new_key() for _ in range(20)]
    left = iter(keys)
    monkeypatch.setattr(launch, "new_key", lambda: next(left))
    worked(home, loads=ONE_LOAD)
    assert all(run.error is None for run in home.runs())
    used = keys[: keys.index(next(left))]
    assert len(used) == len(set(used)) == 2
    for path in home.folder.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not any(key.encode() in content for key in used), path


@pytest.mark.parametrize(("late", "failed"), [(True, 0), (False, 1)])
def test_a_bundle_before_its_files_is_awaited_and_fails_without_them(
    home: Home, monkeypatch: pytest.MonkeyPatch, *, late: bool, failed: int
) -> None:
    """As on a network's file system."""
    home.submit()
    job = leases.claim(home.database, "me", 30.0)
    assert job is not None
    planned = plan(job.study)
    run = planned[0].runs[0]
    folder = write_run(home.settings.bundles, job_id=job.job_id, run_id=f"{run.key(job.job_id)}-0")
    files = {path: path.rename(home.folder / path.name) for path in list(folder.iterdir())}
    status = JobStatus(planned)
    recorder = Recorder(home.settings, job, BundleWriter(home.settings), status, Contents())
    monkeypatch.setattr(run_recorder, "_FILES_COME_WITHIN_S", 600.0 if late else 0.2)
    if late:
        threading.Timer(0.3, lambda: [hidden.rename(path) for path, hidden in files.items()]).start()
    assert recorder.is_done(run)
    assert (status.runs_done, status.runs_failed) == (1, failed)
