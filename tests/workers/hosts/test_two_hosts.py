"""A study that two hosts share: real workers that take each other for another host, with real engine processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import queue
from jobs.fleet.blocks import handed_out
from jobs.table import FINISHED
from lab.comparison.compare import Comparison
from lab.comparison.samples import RunSample
from lab.metrics.measure import measure
from tests import processes
from tests.lab.comparison.one_cell import compare
from tests.workers.homes import REPOSITORY, Home, new_home, until, worker_environment
from warehouse.bundles.run_bundle import find_bundles, read_bundle
from warehouse.queries.comparing.paired_runs import sample
from workers.run_environment import likeness_here
from workers.worker import Ends, Worker

pytestmark = pytest.mark.engine

#: Identical arms.
STUDY: dict[str, Any] = {
    "arms": [{"name": "plain", "baseline": True}, {"name": "other"}],
    "loads": [{"max_concurrency": 2, "num_prompts": 6}],
    "spread": "hosts",
    "alone": False,
}


@pytest.fixture
def home(tmp_path: Path, migrated: Path) -> Iterator[Home]:
    """Its engine says which version it is, before it starts."""
    with new_home(tmp_path, migrated) as it:
        file = it.settings.engines_file
        versioned = 'version_command = ["echo", "1.2.3"]\n[vllm.environment]'
        file.write_text(file.read_text().replace("[vllm.environment]", versioned))
        yield it
        until(lambda: not it.engine_processes(), "the engines of a killed worker are gone")


@contextlib.contextmanager
def worker_on(home: Home, host: str, slot: int) -> Iterator[processes.Started]:
    """A worker on its own half of the processors, under another name for this machine."""
    environment = worker_environment(home) | {"DRAFTHOUSE_SLOTS": "2", "DRAFTHOUSE_SLOT": str(slot)}
    started = processes.start(
        "tests.fleet.named",
        host,
        "tests.workers.unattended",
        environment=environment,
        folder=REPOSITORY,
        output=home.folder / f"{host}.log",
    )
    try:
        yield started
    finally:
        started.kill()
        started.wait()


def compared(home: Home) -> Comparison:
    """Both arms by all runs there are, valid or not: here the hosts disturb each other."""
    arms: dict[str, list[RunSample]] = {"plain": [], "other": []}
    for folder in find_bundles(home.settings.bundles):
        bundle = read_bundle(folder)
        run, number = bundle.run, measure(bundle.run, bundle.requests, bundle.telemetry)["output_tok_per_s"]
        names = ("run_id", "job_id", "repeat", "launch_index", "taken_over_from", "until_decided")
        row = {name: getattr(run, name) for name in names}
        arms[run.arm.name].append(sample(row | {"arm": run.arm.name, "host": run.circumstances.host, "number": number}))
    return compare(arms["plain"], arms["other"], "higher")


def end(home: Home, job_id: str) -> None:
    until(lambda: home.job(job_id).state in FINISHED, "the study ends")
    assert (home.job(job_id).state, home.job(job_id).error) == ("done", None)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor has one slot")
def test_identical_arms_on_two_hosts_one_half_as_fast_are_told_apart_by_nothing(home: Home) -> None:
    """The first engine starts once both hosts have a block."""
    go = home.folder / "go"
    flags = {"token_s": 0.04, "half_as_fast_on": max(os.sched_getaffinity(0)), "await_file": str(go)}
    job_id = home.submit(**STUDY, repeats=4, engine_flags=flags)
    with worker_on(home, "w1", 1), worker_on(home, "w2", 2):
        until(lambda: "helps" in home.event_kinds(job_id), "one helps the other")
        go.touch()
        end(home, job_id)
    assert home.event_kinds(job_id) == ["submitted", "claimed", "helps", "done"]
    progress = home.job(job_id).progress
    assert progress is not None
    assert (progress.runs_done, progress.runs_total) == (8, 8)
    hosts_of: dict[int, set[str | None]] = {}
    for run in home.runs():
        hosts_of.setdefault(run.repeat, set()).add(run.circumstances.host)
    assert {len(hosts) for hosts in hosts_of.values()} == {1}
    assert set().union(*hosts_of.values()) == {"w1", "w2"}
    comparison = compared(home)
    assert (comparison.blocks, comparison.effect is None) == (4, False)
    assert comparison.effect is not None
    sure = comparison.effect.interval(0.999)  # wider than a verdict's: chance must not fail this test
    assert sure.low is not None
    assert sure.high is not None
    assert sure.low < 0 < sure.high


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one processor has one slot")
def test_a_block_of_a_killed_host_is_measured_again_whole_on_the_other(home: Home) -> None:
    home = home.leased_for(60.0)
    go = home.folder / "go"
    arms = [{"name": "plain", "baseline": True}, {"name": "other", "flags": {"await_file": str(go)}}]
    job_id = home.submit(**STUDY | {"arms": arms}, repeats=2)
    with worker_on(home, "w1", 1) as first:
        until(lambda: len(home.runs()) == 1, "w1 has measured half of the first block")
        with worker_on(home, "w2", 2):
            until(lambda: "helps" in home.event_kinds(job_id), "w2 helps")
            first.kill()
            go.touch()
            end(home, job_id)
    kinds = ["submitted", "claimed", "helps", "requeued", "claimed", "done"]
    assert home.event_kinds(job_id) == kinds
    progress = home.job(job_id).progress
    assert progress is not None
    assert (progress.runs_done, progress.runs_total) == (4, 4)
    measured = sorted((str(run.circumstances.host), run.repeat, run.arm.name) for run in home.runs())
    whole = [("w2", repeat, arm) for repeat in range(2) for arm in ("other", "plain")]
    assert measured == [("w1", 0, "plain"), *whole]
    assert compared(home).blocks == 2


def test_a_host_with_other_weights_gives_the_study_back(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure_one_block() -> None:
        worker = Worker(home.settings, Ends(once=True))
        monkeypatch.setattr(worker, "_needed_for", lambda _job: "drains")
        worker.work()

    job_id = home.submit(**STUDY, repeats=2)
    monkeypatch.setattr("platform.node", lambda: "w1")
    measure_one_block()
    assert (len(home.runs()), home.job(job_id).state) == (2, "queued")
    (home.folder / "model" / "model.safetensors").write_bytes(b"others")
    monkeypatch.setattr("platform.node", lambda: "w2")
    Worker(home.settings).work()
    assert (len(home.runs()), home.job(job_id).state) == (2, "queued")
    *_, last = (event.detail for event in queue.events(home.database, job_id))
    assert "w2 is not like w1: weights of" in last
    assert [block.is_done for block in handed_out(home.database, home.job(job_id))] == [True]


def test_what_a_host_measures_with_is_unknown_for_weights_it_does_not_have(home: Home) -> None:
    study = home.study(**STUDY)
    known = likeness_here(home.settings, study, lambda: None)
    assert known is not None
    assert sorted(known) == [
        f"dataset of {study.workloads[0].name}",
        "engine vllm",
        "hardware",
        f"weights of {study.target}",
    ]
    assert likeness_here(home.settings, home.study(**STUDY, target="nobody/has-it"), lambda: None) is None
