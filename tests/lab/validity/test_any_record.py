"""Whatever a run left behind, judging it raises nothing and says something that can be read."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.metrics.measure import measure
from lab.metrics.records import EngineLog, RequestRecord, ServerCounters, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.study import Load, Speculation, Workload
from lab.validity import CHECKS, StudyRun, judge, judge_study
from tests.lab.validity.healthy import log_line
from tests.warehouse.generated import request_records
from tests.warehouse.runs import circumstances, run_record

_DRAFT = Speculation(method="ngram", num_speculative_tokens=3)
_NUMBER = st.none() | st.floats(0, 1e12)
_BYTES = st.none() | st.integers(0, 100)
_COUNTERS = st.none() | st.builds(
    ServerCounters,
    **dict.fromkeys(set(ServerCounters.model_fields) - {"num_accepted_tokens_per_position"}, _NUMBER),
    num_accepted_tokens_per_position=st.none() | st.lists(st.floats(0, 1e9), min_size=1, max_size=4).map(tuple),
)
_SAMPLES = st.builds(
    TelemetrySample,
    t_s=st.floats(0, 1e5),
    loop_lag_ms=st.floats(0, 1e5),
    requests_in_flight=st.integers(0, 99),
    requests_done=st.integers(0, 99),
    chunks_received=st.integers(0, 99),
    engine_running=st.none() | st.integers(0, 99),
    engine_waiting=st.none() | st.integers(0, 99),
    gpu_utilisation_percent=st.none() | st.floats(0, 100),
    gpu_sm_clock_mhz=st.none() | st.floats(0, 3000),
    gpu_throttle_reasons=st.none() | st.text(max_size=20),
    gpu_other_processes=st.none() | st.integers(0, 3),
)
_LOADS = st.sampled_from(
    [
        Load(max_concurrency=1, num_prompts=4),
        Load(max_concurrency=4, num_prompts=4),
        Load(max_concurrency=2, num_prompts=4, request_rate_rps=3.0),
    ]
)
_CONFIG = st.dictionaries(
    st.sampled_from(["compilation_config", "cuda_graph_max_bs", "non_default_args", "disable_cuda_graph"]),
    st.sampled_from(["", "{", "12", "{'max_num_seqs': 2}", "{'max_cudagraph_capture_size': 2}", "None"]) | st.text(),
)
_LINES = st.text() | st.builds(
    log_line, st.sampled_from(["compiling a graph for x", "overridden by {", "a"]), st.floats(-1e6, 1e6)
)


@st.composite
def runs(draw: st.DrawFn) -> Any:
    around = circumstances(
        effective_config=draw(_CONFIG),
        command=draw(st.sampled_from([(), ("vllm",)])),
        gpus=draw(st.sampled_from([(), ("H200 (1)",)])),
    )
    return run_record(
        arm={"name": "arm", "speculation": draw(st.none() | st.just(_DRAFT))},
        load=draw(_LOADS),
        workload=draw(st.sampled_from([Workload(), Workload(dataset="random_s"), Workload(ignore_eos=False)])),
        endpoint=draw(st.sampled_from(["chat", "completions"])),
        counters_before=draw(_COUNTERS),
        counters_after=draw(_COUNTERS),
        duration_s=draw(_NUMBER),
        log_begin_bytes=draw(_BYTES),
        log_end_bytes=draw(_BYTES),
        status=draw(st.sampled_from(["completed", "failed"])),
        error=draw(st.none() | st.text()),
        started_at=draw(st.sampled_from(["2026-11-21T04:00:00+00:00", "2024-02-29T23:59:59", "not a date"])),
        circumstances=around,
        client=draw(st.none() | st.just(run_record().client)),
    )


@settings(max_examples=100, deadline=None)
@given(
    runs(),
    st.lists(request_records(), max_size=12),
    st.lists(_SAMPLES, max_size=14),
    st.none() | st.lists(_LINES, max_size=5).map("\n".join),
)
def test_judging_raises_nothing_and_every_check_is_named_once_at_most(
    run: Any, requests: list[RequestRecord], samples: list[TelemetrySample], log: str | None
) -> None:
    table = RequestTable.of(requests)
    metrics = measure(run, table, samples)
    places = run.log_begin_bytes, run.log_end_bytes
    verdict = judge(run, table, samples, metrics, None if log is None else EngineLog(log.encode(), *places))
    named = [finding.check for finding in verdict.findings] + [skipped.check for skipped in verdict.skipped]
    assert len(set(named)) == len(named)
    declared = {check.name: check for check in CHECKS}
    order = ("note", "warning", "invalid")
    for finding in verdict.findings:
        assert finding.sentence.strip()
        assert "nan" not in finding.sentence.split()
        assert order.index(finding.severity) <= order.index(declared[finding.check].severity)
    assert verdict.valid == (not verdict.why_invalid)
    judge_study([StudyRun(run, metrics), StudyRun(run, metrics)])
