"""Kept engines where files fail, another worker is quicker, or a word is no path: nothing stale and nothing left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from host.settings import Settings
from jobs.engines.profiles import Profile
from tests.workers.homes import Home
from workers.engine_runtime import process
from workers.engine_runtime.kept import Identity, KeptEngines, KeptLaunch, identity, remove_left_logs
from workers.engine_runtime.launch import Command, RunningEngine
from workers.engine_runtime.process import end_kept
from workers.load.client import Endpoint

PROFILE = Profile(kind="vllm", command=("vllm",), version_command=("echo", "1.2.3"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, keep_engines_for_s=3600)


@pytest.fixture
def launch(settings: Settings) -> Iterator[KeptLaunch]:
    log = settings.logs_dir / "engines" / "job.log"
    running = process.start(("sleep", "600"), {}, log, settings.home / "engines")
    command = Command(("sleep",), PROFILE, {}, Endpoint("http://127.0.0.1:1", "model"), log)
    yield KeptLaunch((), (RunningEngine(running, command, None, {}, None),), "job/0", frozenset())
    running.stop(0.0)


def test_a_log_that_cannot_be_moved_keeps_no_engine_and_fails_nothing(settings: Settings, launch: KeptLaunch) -> None:
    (engine,) = launch.engines
    engine.command.log.unlink()
    kept = KeptEngines(settings)
    assert not kept.keep(launch, suspends=True)
    assert not kept
    assert launch.is_alive


def test_kept_engines_whose_log_cannot_be_moved_are_ended(settings: Settings, launch: KeptLaunch) -> None:
    kept = KeptEngines(settings)
    assert kept.keep(launch, suspends=True)
    assert kept.take([], [settings.home / "no folder" / "other.log"], ("other", 0)) is None
    assert not launch.is_alive
    assert list((settings.logs_dir / "engines").iterdir()) == []


def test_an_engine_taken_back_is_not_ended_by_another_worker(settings: Settings, launch: KeptLaunch) -> None:
    kept, marks = KeptEngines(settings), settings.home / "engines"
    assert kept.keep(launch, suspends=True)
    assert kept.take([], [settings.logs_dir / "engines" / "other.log"], ("other", 0)) is not None
    end_kept(marks)
    assert launch.is_alive


def test_an_engine_that_another_worker_is_ending_is_not_taken_over(settings: Settings, launch: KeptLaunch) -> None:
    kept = KeptEngines(settings)
    assert kept.keep(launch, suspends=True)
    for file in (settings.home / "engines").glob("*.kept"):
        file.unlink()  # as end_kept does before it ends the engine
    assert kept.take([], [settings.logs_dir / "engines" / "other.log"], ("other", 0)) is None
    assert not launch.is_alive


def test_logs_that_a_killed_worker_kept_are_removed_and_no_others(settings: Settings, launch: KeptLaunch) -> None:
    kept, logs = KeptEngines(settings), settings.logs_dir / "engines"
    assert kept.keep(launch, suspends=True)
    (living,) = logs.iterdir()
    (logs / "kept-0123.log").touch()
    (logs / "a-job.log").touch()
    remove_left_logs(settings)
    assert sorted(logs.iterdir()) == sorted([living, logs / "a-job.log"])
    kept.end(0.0)


def test_a_start_depends_on_files_whose_path_has_blanks(home: Home) -> None:
    named = home.folder / "my models" / "tokenizer, new.json"
    named.parent.mkdir()
    named.write_text("{}")
    long = {"A_LONG_VALUE": "{" + "x" * 5000}

    def depends_on(word: str) -> Identity | None:
        study = home.study()
        command = Command(("engine", word), PROFILE, long, Endpoint("http://127.0.0.1:1", "m"), home.folder / "e.log")
        return identity(home.settings, study, study.arms[0], command, {study.target: "digest"})

    for word in (str(named), f"--tokenizer={named}", f'{{"model": "{named}"}}', str(named.parent)):
        before = depends_on(word)
        assert before is not None
        named.write_text(named.read_text() + " ")
        assert depends_on(word) != before
