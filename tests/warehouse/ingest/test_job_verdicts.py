"""Runs of a job are judged together: again with each new run, and without those whose bundle is gone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from host.settings import Settings
from lab.metrics.records import RunRecord
from lab.study import Load
from tests.warehouse.runs import BASELINE_ARM, request, write_run
from warehouse.bundles.run_bundle import read_run
from warehouse.ingest import job_verdicts
from warehouse.ingest.bundle_rows import add_bundles
from warehouse.ingest.job_verdicts import SeenRuns, judge_jobs
from warehouse.ingest.master import connect_master


def add(connection: duckdb.DuckDBPyConnection, settings: Settings, run_id: str, **changes: Any) -> None:
    folder = write_run(settings.bundles, changes.pop("requests", (request(),)), run_id=run_id, **changes)
    assert add_bundles(connection, settings.bundles, [folder]) == {}


def verdicts(connection: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    return connection.execute("SELECT job_id, runs_judged, unjudged_checks FROM study_validity ORDER BY 1").fetchall()


def findings(connection: duckdb.DuckDBPyConnection, check: str) -> list[tuple[Any, ...]]:
    query = "SELECT job_id, severity, sentence, run_ids FROM study_findings WHERE check_name = ? ORDER BY ALL"
    return connection.execute(query, [check]).fetchall()


def test_each_job_is_judged_again_when_it_has_a_new_run(settings: Settings) -> None:
    with connect_master(settings.master_file) as connection:
        add(connection, settings, "b", job_id="job-2", load=Load(max_concurrency=2, num_prompts=2))
        add(connection, settings, "a", arm=BASELINE_ARM, is_baseline=True)
        assert judge_jobs(connection, settings.bundles) == {"job-1": None, "job-2": None}
        assert verdicts(connection) == [("job-1", 1, []), ("job-2", 1, [])]
        assert judge_jobs(connection, settings.bundles) == {}
        once = "cells were measured only once, so their variation is unknown."
        assert findings(connection, "single_repeat") == [
            ("job-1", "warning", f"1 of 1 {once}", ["a"]),
            ("job-2", "warning", f"1 of 1 {once}", ["b"]),
        ]
        add(connection, settings, "c", load=Load(max_concurrency=2, num_prompts=2))
        assert judge_jobs(connection, settings.bundles) == {"job-1": None}
        assert [row[:2] for row in verdicts(connection)] == [("job-1", 2), ("job-2", 1)]
        assert findings(connection, "single_repeat")[0] == ("job-1", "warning", f"2 of 2 {once}", ["a", "c"])


def test_a_new_run_costs_reading_its_own_bundle_alone(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def reading(folder: Path) -> RunRecord:
        read.append(folder.name)
        return read_run(folder)

    with connect_master(settings.master_file) as connection, monkeypatch.context() as patched:
        patched.setattr(job_verdicts, "read_run", reading)
        seen = SeenRuns()
        arms: tuple[dict[str, Any], ...] = ({"arm": BASELINE_ARM, "is_baseline": True}, {}, {"repeat": 1})
        for number, arm in enumerate(arms):
            add(connection, settings, f"run-{number}", requests=(request(output_text=f"{number}"),), **arm)
            assert judge_jobs(connection, settings.bundles, ["job-1"], seen) == {"job-1": None}
        assert read == ["run-0", "run-1", "run-2"]
        incremental = connection.execute("FROM study_findings ORDER BY ALL").fetchall(), verdicts(connection)
        judge_jobs(connection, settings.bundles, ["job-1"])
        assert (connection.execute("FROM study_findings ORDER BY ALL").fetchall(), verdicts(connection)) == incremental
        assert "outputs_differ" in {row[1] for row in incremental[0]}


def test_outputs_of_the_first_requests_are_compared_with_the_baselines(settings: Settings) -> None:
    def answers(other: str) -> tuple[Any, ...]:
        return tuple(
            request(index=place, prompt_id=f"p{place}", output_text=other if place in {0, 199, 200} else "same")
            for place in range(201)
        )

    with connect_master(settings.master_file) as connection:
        add(connection, settings, "plain", arm=BASELINE_ARM, is_baseline=True, requests=answers("one"))
        add(connection, settings, "drafted", requests=answers("other"))
        judge_jobs(connection, settings.bundles)
        ((job_id, severity, sentence, run_ids),) = findings(connection, "outputs_differ")
    assert (job_id, severity, run_ids) == ("job-1", "note", ["plain", "drafted"])
    assert sentence.startswith("Arm 'draft' gave the same output as the baseline for 198 of 200 prompts (99 %; 95 %")


def test_without_outputs_the_check_is_named_as_skipped(settings: Settings) -> None:
    with connect_master(settings.master_file) as connection:
        add(connection, settings, "plain", arm=BASELINE_ARM, is_baseline=True, requests=())
        add(connection, settings, "drafted", requests=())
        judge_jobs(connection, settings.bundles)
        assert verdicts(connection) == [("job-1", 2, ["outputs_differ"])]


def test_a_run_whose_bundle_is_gone_counts_and_is_not_judged(settings: Settings) -> None:
    with connect_master(settings.master_file) as connection:
        add(connection, settings, "a")
        add(connection, settings, "b", load=Load(max_concurrency=2, num_prompts=2))
        shutil.rmtree(settings.bundles / "job-1" / "b")
        judge_jobs(connection, settings.bundles)
        assert verdicts(connection) == [("job-1", 2, [])]
        assert [row[3] for row in findings(connection, "single_repeat")] == [["a"]]


def test_the_studys_own_price_is_judged_with_its_runs(settings: Settings) -> None:
    with connect_master(settings.master_file) as connection:
        add(connection, settings, "a", study_id="s" * 64)
        insert = "INSERT INTO studies (study_id, name, toml, json, created_at) VALUES (?, 'n', '', ?, now())"
        connection.execute(insert, ["s" * 64, '{"price_usd_per_hour": 2.5}'])
        judge_jobs(connection, settings.bundles)
        ((*_, sentence, run_ids),) = findings(connection, "price_without_date")
    assert sentence == "Costs follow from the study's own price, 2.5 USD an hour, which has no date and no source."
    assert run_ids == ["a"]


@pytest.mark.parametrize("job_id", ["job-1", "'; DROP TABLE runs"])
def test_judging_replaces_the_verdict_of_that_job_alone(settings: Settings, job_id: str) -> None:
    with connect_master(settings.master_file) as connection:
        add(connection, settings, "a", job_id=job_id)
        add(connection, settings, "z", job_id="other")
        judge_jobs(connection, settings.bundles)
        add(connection, settings, "b", job_id=job_id, repeat=1)
        judge_jobs(connection, settings.bundles)
        assert [row[:2] for row in verdicts(connection)] == sorted([(job_id, 2), ("other", 1)])
        assert [row[0] for row in findings(connection, "single_repeat")] == ["other"]
