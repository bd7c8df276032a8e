"""What a foreign file does not say is named, so that checks that need it are skipped and none passes in silence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from lab.metrics.records import TelemetrySample
from lab.study import Load, Sampling, Slo
from tests.warehouse.ingest.foreign import COLUMNS, FAILED, REQUEST, bundle, evidence, foreign, silent
from tests.warehouse.runs import records
from warehouse.bundles.imported_bundle import (
    known_of_all,
    read_imported,
    read_known_of_all,
    read_record,
    write_imported,
)
from warehouse.bundles.imported_run import ImportedRequest, ImportedRequests, ImportedRun, Scalar
from warehouse.bundles.run_bundle import REQUESTS_FILE, find_bundles
from warehouse.ingest.imported import (
    as_lists,
    chunk_moments_s,
    failure_reason,
    without_requests,
)


def unrecorded(run: ImportedRun) -> set[str]:
    """Beyond what no file records."""
    return set(evidence(run).unrecorded) - set(evidence(foreign()).unrecorded)


def test_no_file_records_the_client_the_server_or_the_machine() -> None:
    never = evidence(foreign()).unrecorded
    assert {"client", "counters_before", "counters_after", "log", "circumstances", "sampling", "prompt"} <= never
    assert {"loop_lag_ms", "gpu_throttle_reasons", "engine_running", "arm.flags", "intended_send_s"} <= never
    assert set(TelemetrySample.__dataclass_fields__) <= never
    assert not {"workload.dataset", "arm.speculation", "error", "sent_s", "completion_tokens", "duration_s"} & never


@pytest.mark.parametrize(
    ("column", "hidden"),
    [
        ("dataset", "workload.dataset"),
        ("ignore_eos", "workload.ignore_eos"),
        ("input_tokens", "workload.input_tokens"),
        ("requested_output_tokens", "requested_output_tokens"),
        ("concurrency", "load.max_concurrency"),
        ("started_at", "started_at"),
        ("endpoint", "endpoint"),
        ("repeat", "repeat"),
        ("num_speculative_tokens", "arm.speculation"),
    ],
)
def test_an_absent_column_hides_the_field_that_it_fills(column: str, hidden: str) -> None:
    assert unrecorded(foreign({column: None})) == {hidden}


@pytest.mark.parametrize("name", ["duration_s", "requests_failed", "requests_completed"])
def test_an_absent_metric_is_unrecorded(name: str) -> None:
    assert unrecorded(foreign(metrics={name: None})) == {name}


@pytest.mark.parametrize(
    ("changes", "hidden"),
    [
        ({"sent_s": None}, "sent_s"),
        ({"ttft_ms": None}, "first_token_s"),
        ({"e2e_ms": None}, "end_s"),
        ({"chunk_gaps_ms": None}, "chunk_s"),
        ({"output_text": None}, "output_text"),
        ({"completion_tokens": None}, "completion_tokens"),
        ({"spec_accepted_tokens": None}, "spec_accepted_tokens"),
    ],
)
def test_what_one_completed_request_lacks_is_unrecorded_of_all(changes: dict[str, Any], hidden: str) -> None:
    assert unrecorded(foreign(requests=(REQUEST, replace(REQUEST, **changes), FAILED))) == {hidden}
    assert unrecorded(foreign(requests=(REQUEST, FAILED))) == set()


def many(place: int, lacks: str | None) -> tuple[ImportedRequest, ...]:
    """Return more requests than are read at once, of which the one in this place lacks something."""
    requests = [REQUEST if number % 3 else FAILED for number in range(2000)]
    without: dict[str, Any] = {} if lacks is None else {lacks: None}
    requests[place] = replace(REQUEST, **without)
    return tuple(requests)


@pytest.mark.parametrize(
    "requests",
    [
        *(many(place, lacks) for place in (0, 1999) for lacks in ("sent_s", "chunk_gaps_ms", "output_text", None)),
        *(None, (), (FAILED,)),
    ],
)
def test_a_bundle_that_is_read_in_parts_records_the_same(
    tmp_path: Path, requests: tuple[ImportedRequest, ...] | None
) -> None:
    run = foreign(requests=requests)
    write_imported(tmp_path, [run], {run.source.sha256: lambda: [b"{}"]})
    [folder] = find_bundles(tmp_path)
    judged = without_requests(read_record(folder), read_known_of_all(folder))
    assert (judged.unrecorded, judged.record) == (evidence(run).unrecorded, evidence(run).record)


def test_a_field_that_a_file_of_an_earlier_drafthouse_lacks_is_unrecorded(tmp_path: Path) -> None:
    run = foreign()
    write_imported(tmp_path, [run], {run.source.sha256: lambda: [b"{}"]})
    [folder] = find_bundles(tmp_path)
    file = folder / REQUESTS_FILE
    pq.write_table(pq.read_table(file).drop_columns(["output_text"]), file)
    requests = read_imported(folder).run.requests
    assert requests is not None
    known = known_of_all(requests.completed)
    assert read_known_of_all(folder) == known
    assert "output_text" not in known
    assert "completion_tokens" in known


def test_without_a_completed_request_nothing_of_requests_is_recorded() -> None:
    of_each = {"sent_s", "first_token_s", "end_s", "chunk_s", "output_text", "completion_tokens"}
    assert unrecorded(foreign(requests=(FAILED,))) == of_each | {"spec_accepted_tokens"}
    assert unrecorded(foreign(requests=None)) == of_each | {"spec_accepted_tokens", "error"}


@pytest.mark.parametrize(
    ("drafted", "positions", "expected"),
    [
        (3, None, 3),
        (0, None, 1),
        (64, None, 64),
        (65, None, 64),
        (None, None, None),
        (None, (0.5,), 1),
        (None, (0.5,) * 64, 64),
        (None, (0.5,) * 65, None),
        (2, (0.5,) * 5, 2),
    ],
)
def test_drafted_tokens_are_what_the_file_says_or_its_positions(
    drafted: int | None, positions: tuple[float, ...] | None, expected: int | None
) -> None:
    judged = evidence(foreign({"num_speculative_tokens": drafted}, {"acceptance_per_position": positions}))
    speculation = judged.record.arm.speculation
    assert (None if speculation is None else speculation.num_speculative_tokens) == expected
    assert ("arm.speculation" in judged.unrecorded) == (expected is None)


def test_the_record_has_what_the_file_says() -> None:
    run = foreign()
    record = evidence(run).record
    named = bundle(run)
    assert (record.run_id, record.cell_key, record.job_id) == (run.run_id, run.run_id, named.job_id)
    assert (record.study_id, record.study_name) == (named.study_id, named.study_name)
    assert (record.workload.dataset, record.workload.output_tokens, record.workload.ignore_eos) == ("prose", 16, True)
    assert record.load == Load(max_concurrency=4, num_prompts=1_000_000, request_rate_rps=2.5)
    assert (record.status, record.error, record.duration_s) == ("completed", None, 2.5)
    assert record.started_at == "2026-11-21T04:00:00+02:00"
    assert (record.repeat, record.launch_index, record.attempt, record.is_baseline) == (0, 0, 0, False)
    assert (record.sampling, record.slo, record.endpoint) == (Sampling(), Slo(), "completions")
    assert (record.target, record.arm.name, record.arm.engine) == ("unknown", "unknown", "unknown")
    assert record.arm.speculation is not None
    assert record.arm.speculation.method == "unknown"


def test_what_the_file_does_not_say_has_a_placeholder() -> None:
    judged = evidence(silent())
    record = judged.record
    assert records(judged.requests) == ()
    assert (record.workload.dataset, record.workload.output_tokens, record.workload.ignore_eos) == ("unknown", 0, False)
    assert record.load == Load(max_concurrency=1, num_prompts=1_000_000)
    assert (record.started_at, record.duration_s, record.arm.speculation) == ("1970-01-01T00:00:00+00:00", None, None)
    assert record.status == "completed"


@pytest.mark.parametrize(
    ("columns", "load"),
    [
        ({"concurrency": 0}, Load(max_concurrency=1, num_prompts=1_000_000, request_rate_rps=2.5)),
        ({"concurrency": 5000}, Load(max_concurrency=4096, num_prompts=1_000_000, request_rate_rps=2.5)),
        ({"request_rate_rps": 0}, Load(max_concurrency=4, num_prompts=1_000_000)),
        ({"request_rate_rps": 1e7}, Load(max_concurrency=4, num_prompts=1_000_000, request_rate_rps=1e6)),
        ({"request_rate_rps": 1e-5}, Load(max_concurrency=4, num_prompts=1_000_000, request_rate_rps=1e-4)),
    ],
)
def test_a_load_out_of_range_is_the_nearest_in_it(columns: dict[str, Scalar], load: Load) -> None:
    assert evidence(foreign(columns)).record.load == load


def test_a_long_study_name_is_cut_and_no_completed_request_means_failed() -> None:
    run = foreign(metrics={"requests_completed": 0}, labels={"study": "s" * 201})
    record = evidence(run).record
    assert record.study_name == "s" * 200
    assert (record.status, record.error) == ("failed", "no request completed")
    assert failure_reason(run) == "no request completed"
    assert failure_reason(foreign()) is None
    assert failure_reason(foreign(metrics={"requests_completed": None})) is None


def test_a_request_has_the_moments_that_follow_from_its_latencies() -> None:
    first, failed = records(evidence(foreign()).requests)
    assert (first.intended_send_s, first.sent_s, first.first_token_s, first.end_s) == (1.0, 1.0, 1.5, 1.9)
    assert (first.chunk_s, first.chunk_tokens) == ((1.5, 1.75, 1.875), None)
    assert (first.index, first.prompt, first.requested_output_tokens, first.output_text) == (7, "", 16, "text")
    assert (first.prompt_tokens, first.completion_tokens, first.spec_accepted_tokens) == (32, 4, 2)
    assert (failed.index, failed.error, failed.output_text, failed.chunk_s) == (8, "broke", "", ())
    assert (failed.sent_s, failed.intended_send_s, failed.first_token_s, failed.end_s) == (0.0, 0.0, None, 0.0)
    (unasked,) = records(evidence(foreign({"requested_output_tokens": None}, requests=(REQUEST,))).requests)
    assert unasked.requested_output_tokens == 0


def test_a_rounding_error_at_the_end_is_no_contradiction() -> None:
    def moments(gap_ms: float, e2e_ms: float | None = 900.0) -> list[float]:
        return moments_of(replace(REQUEST, chunk_gaps_ms=(100.0, gap_ms), e2e_ms=e2e_ms))

    assert moments(300.0005) == pytest.approx([1.5, 1.6, 1.9], abs=1e-12)
    assert moments(300.0005)[-1] <= 1.9
    assert moments(300.002)[-1] == pytest.approx(1.900002, abs=1e-9)
    assert moments(299.0)[-1] == pytest.approx(1.899)
    assert moments(5000.0, e2e_ms=None)[-1] == pytest.approx(6.6)
    assert moments_of(replace(REQUEST, chunk_gaps_ms=None)) == []
    assert moments_of(replace(REQUEST, ttft_ms=None)) == []
    assert moments_of(replace(REQUEST, chunk_gaps_ms=())) == [1.5]


def moments_of(request: ImportedRequest) -> list[float]:
    """Return the moments of a request between two others."""
    requests = ImportedRequests.of((FAILED, request, REQUEST))
    found = chunk_moments_s(requests, np.array([0.0, 1.0, 1.0]))
    listed: list[Any] = as_lists(found).to_pylist()
    none, moments, others = listed
    assert (none, others) == ([], [1.5, 1.75, 1.875])
    return list(moments)


def test_every_column_that_a_file_may_have_is_in_these_tests() -> None:
    assert None not in COLUMNS.values()
    assert set(COLUMNS) == set(foreign().columns)


def test_chunks_of_requests_of_which_some_were_sent_at_an_unknown_time() -> None:
    found = evidence(foreign(requests=(REQUEST, replace(REQUEST, sent_s=None))))
    assert as_lists(found.chunks).to_pylist() == [[1.5, 1.75, 1.875], []]
    assert found.requests.texts("chunk_s").to_pylist() == [[1.5, 1.75, 1.875], [0.5, 0.75, 0.875]]
    all_known = evidence(foreign(requests=(REQUEST, replace(REQUEST, sent_s=2.0))))
    assert np.shares_memory(all_known.requests.lists("chunk_s").values, all_known.chunks.values)
