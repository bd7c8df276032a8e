"""A job from claim to end, with a stand-in engine: what is measured, what is skipped, what fails."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from access import accounts
from jobs import queue
from jobs.engine_logs import log_tail
from jobs.table import Job
from lab.errors import UserError
from lab.metrics.records import RunRecord
from lab.roles import Role
from tests.actors import ADMIN
from tests.warehouse.runs import records
from tests.workers.homes import NGRAM, Home, at_work, new_home, until, worked
from warehouse.bundles.run_bundle import find_bundles, read_bundle
from workers.worker import Worker

BASELINE = {"name": "plain", "baseline": True}
ONE_LOAD = [{"max_concurrency": 1, "num_prompts": 4}]


def second_arm(**flags: Any) -> list[dict[str, Any]]:
    """The baseline behaves; the other arm has these flags."""
    return [BASELINE, {"name": "odd", "flags": flags}]


def by_arm(runs: list[RunRecord], arm: str) -> list[RunRecord]:
    return [run for run in runs if run.arm.name == arm]


def starts(file: Path) -> int:
    return len(file.read_text().splitlines())


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[tuple[Home, Job]]:
    """Two arms at two loads in two repeats, only to be looked at, and their job."""
    with new_home(tmp_path_factory.mktemp("measured"), migrated) as home:
        versioned = 'kind = "vllm"\nversion_command = ["echo", "0.32.0"]'
        file = home.settings.engines_file
        file.write_text(file.read_text().replace('kind = "vllm"', versioned))
        drafted = {"name": "drafted", "speculation": NGRAM | {"prompt_lookup_max": 4}}
        yield home, worked(home, arms=[BASELINE, drafted], repeats=2)


def test_every_cell_is_measured_and_its_bundle_is_whole(measured: tuple[Home, Job]) -> None:
    home, job = measured
    assert (job.state, job.error) == ("done", None)
    assert job.progress is not None
    assert (job.progress.runs_done, job.progress.runs_failed, job.progress.launches_done) == (8, 0, 4)
    runs = home.runs()
    assert Counter((run.arm.name, run.load.max_concurrency, run.repeat) for run in runs) == {
        (arm, streams, repeat): 1 for arm in ("plain", "drafted") for streams in (1, 2) for repeat in (0, 1)
    }
    for bundle in map(read_bundle, find_bundles(home.settings.bundles)):
        assert bundle.run.status == "completed"
        assert [request.completion_tokens for request in records(bundle.requests)] == [8] * 4
        assert bundle.run.counters_before is not None
        assert bundle.run.counters_after is not None
        assert bundle.run.counters_before.generation_tokens is not None
        assert bundle.run.counters_after.generation_tokens == bundle.run.counters_before.generation_tokens + 32
        assert "Initializing" in (bundle.folder / "engine.log").read_text()


def test_every_arm_gets_the_same_prompts_in_order_and_warm_up_others(measured: tuple[Home, Job]) -> None:
    bundles = [read_bundle(folder) for folder in find_bundles(measured[0].settings.bundles)]
    first = [bundle for bundle in bundles if bundle.run.repeat == 0]
    assert len({tuple(request.prompt for request in records(bundle.requests)) for bundle in first}) == 1
    assert all(bundle.run.warmup_requests >= bundle.run.load.max_concurrency for bundle in bundles)


def test_the_circumstances_are_those_of_the_engine_that_ran(measured: tuple[Home, Job]) -> None:
    drafted, plain = (by_arm(measured[0].runs(), arm)[0].circumstances for arm in ("drafted", "plain"))
    assert drafted.engine_version == "1.2.3-test"
    assert drafted.effective_config["extra"] == "{'a': [1, 2]}"
    assert drafted.environment["HF_HUB_OFFLINE"] == "1"
    assert drafted.target_digest is not None
    assert drafted.start_s is not None
    assert drafted.start_s > 0
    command = " ".join(drafted.command)
    assert '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}' in command
    assert "--per-request-spec-decode-metrics detailed" in command
    assert "--speculative-config" not in plain.command


def test_one_start_serves_all_cells_of_an_arm_and_stays_warm(home: Home, tmp_path: Path) -> None:
    loads = [{"max_concurrency": streams, "num_prompts": 4} for streams in (1, 2, 3, 4)]
    job = worked(home, loads=loads, engine_flags={"counter_file": str(tmp_path / "starts")})
    assert job.state == "done"
    assert starts(tmp_path / "starts") == 2  # one for each arm
    assert [run.idle_before_s is None for run in home.runs()].count(True) == 2  # the first of each
    for name in ("plain", "drafted"):  # an engine that went cold would take four
        assert sorted(run.warmup_requests for run in by_arm(home.runs(), name)) == [2, 3, 4, 4]


def test_an_engine_that_does_not_start_is_a_result_of_the_study(home: Home) -> None:
    """It ends by itself, refuses its command line, or dies on its first request."""
    why_none = {
        "ends": ({"fail_to_start": True}, "ValueError: User-specified max_model_len is greater"),
        "refuses": ({"no_such_flag": 7}, "error: unrecognized arguments: --no-such-flag=7"),
        "dies": ({"die_on_first_request": True}, "shape '[-1, 768]' is invalid"),
    }
    ends, *others = ({"name": name, "flags": flags} for name, (flags, _) in why_none.items())
    job = worked(home, arms=[ends, BASELINE, *others])
    assert job.state == "done"
    assert "6 of 8 runs failed" in (job.error or "")
    assert {run.status for run in by_arm(home.runs(), "plain")} == {"completed"}
    for name, (_, words) in why_none.items():
        first, second = by_arm(home.runs(), name)
        assert first.status == second.status == "failed"
        assert first.error == second.error
        assert words in (first.error or "")
        assert first.circumstances.command
    error = str(by_arm(home.runs(), "ends")[0].error)
    assert "ended with exit status 1" in error
    assert error.count("ValueError") == 1


def test_a_crash_under_one_load_fails_that_run_alone(home: Home, tmp_path: Path) -> None:
    """The stand-in dies once, at the second measured request of the first load: hello 1, warm-up 4, window 2."""
    flags = {"die_at_request": 7, "die_once": str(tmp_path / "died")}
    job = worked(home, arms=second_arm(**flags))
    assert job.state == "done"
    by_load = {run.load.max_concurrency: run for run in by_arm(home.runs(), "odd")}
    assert by_load[1].status == "failed"
    assert "was killed by signal 9" in (by_load[1].error or "")
    assert by_load[2].status == "completed"
    failed = next(
        bundle for bundle in map(read_bundle, find_bundles(home.settings.bundles)) if bundle.run.status == "failed"
    )
    first, *others = records(failed.requests)
    assert first.error is None  # what was measured until then is kept
    assert all(request.error for request in others)


def test_an_engine_that_keeps_dying_is_started_twice_at_most(home: Home, tmp_path: Path) -> None:
    loads = [{"max_concurrency": streams, "num_prompts": 4} for streams in (1, 2, 3)]
    job = worked(home, loads=loads, arms=second_arm(die_at_request=7, counter_file=str(tmp_path / "starts")))
    assert job.state == "done"
    odd = by_arm(home.runs(), "odd")
    assert len(odd) == 3
    assert all("killed by signal 9" in (run.error or "") for run in odd)
    assert starts(tmp_path / "starts") == 2


def test_arrivals_are_not_waited_for_when_the_engine_is_dead(home: Home) -> None:
    """The whole schedule would take 300 s."""
    loads = [{"max_concurrency": 1, "num_prompts": 60, "request_rate_rps": 0.2}]
    job = worked(home, loads=loads, arms=[BASELINE | {"flags": {"die_at_request": 6}}])
    assert job.state == "failed"


def test_a_port_that_is_taken_meanwhile_costs_another_start_and_no_run(home: Home, tmp_path: Path) -> None:
    flags = {"port_taken_times": 2, "counter_file": str(tmp_path / "starts")}
    assert worked(home, arms=second_arm(**flags), loads=ONE_LOAD).error is None
    ports = (tmp_path / "starts").read_text().split()
    assert len(ports) == 3
    assert len(set(ports)) > 1


def test_a_first_engine_that_shows_that_none_will_start_ends_the_job(home: Home) -> None:
    job = worked(home, engine_flags={"fail_to_start": True}, repeats=3)
    assert job.state == "failed"
    words = "ValueError: User-specified max_model_len is greater than the derived max_model_len"
    assert (job.error or "").splitlines()[0] == (
        f"no engine of this study can start; that of arm 'plain' failed: {words}"
    )
    assert job.progress is not None
    assert (job.progress.runs_done, job.progress.runs_failed, job.progress.runs_total) == (1, 1, 12)
    (run,) = home.runs()
    assert (run.arm.name, run.status) == ("plain", "failed")
    assert words in (run.error or "")


def test_nothing_is_measured_of_a_model_that_the_targets_own_files_put_in_its_place(home: Home) -> None:
    names = {"speculators_config": {"verifier": {"name_or_path": "/models/others"}}}
    (home.folder / "model" / "config.json").write_text(json.dumps(names))
    job = worked(home)
    assert job.state == "failed"
    assert "vLLM serves '/models/others' with SpeculativeConfig(method='eagle3', model=" in (job.error or "")
    assert {run.status for run in home.runs()} == {"failed"}
    assert home.engine_processes() == []


def test_a_job_whose_every_run_failed_has_failed(home: Home) -> None:
    flags = {"fail_to_start": True}
    job = worked(home, arms=[BASELINE | {"flags": flags}, {"name": "odd", "flags": flags}])
    assert job.state == "failed"
    assert "4 of 4 runs failed; the first: ValueError: User-specified" in (job.error or "")


def test_a_retry_runs_what_failed_and_nothing_else(home: Home, tmp_path: Path) -> None:
    counter = tmp_path / "starts"
    flags = {"die_on_first_request": True, "die_once": str(tmp_path / "died")}
    arms = [BASELINE | {"flags": {"counter_file": str(counter)}}, {"name": "odd", "flags": flags}]
    job = worked(home, arms=arms)
    before = {run.run_id: run for run in home.runs()}
    assert Counter(run.status for run in before.values()) == {"completed": 2, "failed": 2}
    queue.retry(home.database, job.job_id, actor=ADMIN)
    Worker(home.settings).work()
    job = home.job(job.job_id)
    assert (job.state, job.error, job.attempt) == ("done", None, 1)
    new = [run for run in home.runs() if run.run_id not in before]
    assert [(run.arm.name, run.status, run.attempt) for run in new] == [("odd", "completed", 1)] * 2
    assert {run.cell_key for run in new} == {run.cell_key for run in by_arm(list(before.values()), "odd")}
    assert starts(counter) == 1


def test_a_retry_of_everything_measures_anew_and_a_later_one_reuses(home: Home, tmp_path: Path) -> None:
    job = worked(home, loads=ONE_LOAD)
    with pytest.raises(UserError, match="every run"):
        queue.retry(home.database, job.job_id, actor=ADMIN)
    queue.retry(home.database, job.job_id, everything=True, actor=ADMIN)
    Worker(home.settings).work()
    job = home.job(job.job_id)
    assert (job.state, job.attempt) == ("done", 1)
    assert Counter(run.attempt for run in home.runs()) == {0: 2, 1: 2}
    assert job.progress is not None
    assert (job.progress.runs_total, job.progress.runs_done) == (2, 2)
    assert home.event_kinds(job.job_id).count("retried") == 1


def test_without_disk_space_no_run_begins_and_the_job_goes_back(home: Home) -> None:
    full = dataclasses.replace(
        home, settings=home.settings.model_copy(update={"least_free_mib": 2**40, "lease_s": 15.0})
    )
    job = worked(full)
    assert (job.state, job.error) == ("queued", None)
    released = queue.events(home.database, job.job_id)[-1]
    assert released.kind == "released"
    assert "cannot measure it: the next run needs more disk space" in released.detail
    assert home.runs() == []


def test_a_models_code_runs_for_no_owner_who_lost_the_right(home: Home) -> None:
    """The study was submitted by an administrator, who is disabled before a worker takes it."""
    (home.settings.home / "policy.toml").write_text('remote_code = ["administrator"]\n')
    accounts.add_user(home.database, ADMIN.name, Role.ADMINISTRATOR, actor=ADMIN)
    job_id = home.submit(arms=[BASELINE | {"flags": {"trust-remote-code": True}}])
    accounts.disable(home.database, ADMIN.name, actor=ADMIN)
    worker = Worker(home.settings)
    worker.work()
    job = home.job(job_id)
    assert job.state == "failed"
    assert job.error is not None
    assert "Python that comes with a model" in job.error


def test_another_host_reads_the_last_lines_of_an_engine_that_starts(home: Home, tmp_path: Path) -> None:
    elsewhere = home.settings.model_copy(update={"home": tmp_path / "elsewhere"})
    go = tmp_path / "go"
    job_id = home.submit(arms=[BASELINE], loads=ONE_LOAD, engine_flags={"await_file": str(go)})

    def log() -> str:
        return log_tail(elsewhere, job_id, 200, home.job(job_id).progress)

    with at_work(home):
        until(lambda: "Initializing a V1 LLM engine (v1.2.3)" in log(), "the engine's lines come with a heartbeat")
        go.touch()
        until(lambda: home.job(job_id).state == "done", "the study is done")
    assert log() == ""  # its bundles have it by then
