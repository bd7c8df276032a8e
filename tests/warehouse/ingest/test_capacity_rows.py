"""Rows of capacities: one for each repeat of a search and one over all, from the trials that count."""

from __future__ import annotations

from typing import Any

import pytest

from lab.metrics.records import RunRecord
from lab.study import Load, Workload
from lab.study.trial import Trial, trial_load
from tests.warehouse.runs import run_record
from warehouse.ingest.capacity_rows import capacity_rows

SEARCH = Load(find="rate", max_concurrency=8, num_prompts=100)


def trial(number: int, rate: float, **changes: Any) -> RunRecord:
    tried = Trial(search=SEARCH, number=number, arrivals_seed=1)
    return run_record(run_id=f"run-{number}", trial=tried, load=trial_load(SEARCH, number, rate), **changes)


def metrics(run: RunRecord, within: int) -> dict[str, Any]:
    counts = {"requests_completed": 100, "requests_failed": 0, "requests_within_slo": within}
    return {"run_id": run.run_id, **counts, "goodput_tok_per_s": 50.0 * (run.load.request_rate_rps or 0.0)}


def test_a_capacity_lies_between_trials_that_met_and_missed_the_slo() -> None:
    whole = Workload(output_tokens=16)
    runs = [trial(number, rate, workload=whole) for number, rate in enumerate((2.0, 4.0, 8.0))]
    figures = [metrics(run, within) for run, within in zip(runs, (100, 100, 20), strict=True)]
    rows = capacity_rows(runs, figures, {run.run_id for run in runs})
    assert [row["repeat"] for row in rows] == [0, None]
    for row in rows:
        assert 3.5 <= row["low"] <= row["capacity"] <= row["high"] <= 8.0
        assert row["goodput_tok_per_s"] == pytest.approx(50.0 * row["capacity"])
        assert (row["trials"], row["requests"]) == (3, 300)
        about = {"job_id": "job-1", "arm": "draft", "is_baseline": False, "method": "draft_model", "find": "rate"}
        about |= {"category": "all", "concurrency": 8, "num_speculative_tokens": 3, "pattern": SEARCH.name}
        assert about.items() <= row.items()


def test_a_trial_that_is_unusable_or_uncounted_is_left_out() -> None:
    runs = [trial(0, 2.0), trial(1, 4.0), trial(2, 8.0), run_record(run_id="no trial")]
    figures = [metrics(runs[0], 100), metrics(runs[1], 100) | {"requests_within_slo": None}, metrics(runs[2], 0)]
    (_, row) = capacity_rows(runs, figures, {"run-0", "run-1", "no trial"})
    assert (row["capacity"], row["low"], row["high"], row["trials"]) == (None, 2.0, None, 1)
    assert row["category"] == "code"
