"""How a load begins and ends, seen in the bundles of a job: durations, traces, and too many failed requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.errors import StudyError
from lab.metrics.records import RequestRecord, RunRecord
from tests.warehouse.runs import records
from tests.workers.homes import Home, new_home
from warehouse.bundles.run_bundle import find_bundles, read_bundle
from workers.worker import Worker


def measured(
    home: Home, load: dict[str, Any], token_s: float = 0.001, **study: Any
) -> tuple[RunRecord, list[RequestRecord]]:
    """The only run of a study with this load, and its requests."""
    home.submit(**{"arms": [{"name": "plain", "flags": {"token-s": token_s}}], "loads": [load], **study})
    Worker(home.settings).work()
    (folder,) = find_bundles(home.settings.bundles)
    bundle = read_bundle(folder)
    return bundle.run, list(records(bundle.requests))


def test_a_duration_ends_a_run_that_is_whole(home: Home) -> None:
    run, requests = measured(home, {"max_concurrency": 1, "num_prompts": 64, "duration_s": 1.0}, token_s=0.02)
    assert (run.status, run.error) == ("completed", None)
    assert 0 < len(requests) < 64
    assert all(request.completion_tokens == 8 and request.error is None for request in requests)


def test_a_duration_in_which_nothing_was_due_fails_the_run(home: Home) -> None:
    load = {"max_concurrency": 1, "num_prompts": 2, "duration_s": 0.2, "request_rate_rps": 1, "arrivals": "constant"}
    run, requests = measured(home, load)
    assert (run.status, requests) == ("failed", [])
    assert run.error == "no request was due within duration_s 0.2: let it last longer, or raise the rate"


def test_too_many_failed_requests_fail_the_run_with_a_sentence(tmp_path: Path, migrated: Path) -> None:
    load = {"max_concurrency": 2, "num_prompts": 64, "stop_on_error_share": 0.5}
    with new_home(tmp_path, migrated, request_timeout_s=0.2) as home:
        run, requests = measured(home, load, token_s=0.05)
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.startswith("stopped early: 10 of 10 requests had failed, and stop_on_error_share allows 0.5")
    assert run.error.endswith("the first: no complete answer within 0.2 s")
    assert 10 <= len(requests) <= 12


def test_a_trace_is_replayed_at_the_times_of_its_dataset(home: Home) -> None:
    file = home.folder / "trace.jsonl"
    rows = [{"prompt": f"Tale {number}", "arrival_s": 100 + at} for number, at in enumerate((0.0, 0.3, 0.4, 0.6))]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    load = {"max_concurrency": 4, "num_prompts": 4, "arrivals": "trace", "request_rate_rps": 4}
    run, requests = measured(home, load, workloads=[{"dataset": str(file), "output_tokens": 8}])
    assert run.status == "completed"
    assert requests[0].intended_send_s == 0.0
    assert requests[-1].intended_send_s == pytest.approx(1.0)


def test_a_trace_of_a_dataset_without_times_is_refused_at_submission(home: Home) -> None:
    load = {"max_concurrency": 1, "num_prompts": 2, "arrivals": "trace"}
    with pytest.raises(StudyError, match="records no arrival times to replay"):
        home.submit(loads=[load])
