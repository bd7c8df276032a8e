"""What is imported agrees with what the tools printed, to the digits printed, or says why it is another number."""

from __future__ import annotations

import math

import pytest

from lab.metrics.catalogue import METRICS
from lab.metrics.measure import Value
from tests.interchange import samples_read
from tests.interchange.printed import PRINTED, Printed
from warehouse.bundles.imported_run import COLUMNS, ImportedRun

#: The tools that count tokens by tokenising the text again, and where their own figures stand.
_RETOKENISING = {
    "aiperf": ("output_token_throughput.avg", "inter_token_latency.avg", 1.0),
    "inference-perf": (
        "successes.throughput.output_tokens_per_sec",
        "successes.latency.time_per_output_token.mean",
        1000.0,
    ),
}
_EVERY = pytest.mark.parametrize("sample", PRINTED, ids=lambda sample: sample.file)


def _rounded(value: Value, digits: int = 2) -> float:
    assert isinstance(value, (int, float))
    return round(float(value), digits)


@_EVERY
def test_counts_and_the_time_to_the_first_token_are_as_printed(sample: Printed) -> None:
    metrics = samples_read.run(sample.file).metrics
    assert metrics["requests_completed"] == sample.completed
    assert metrics["requests_failed"] == sample.failed
    assert _rounded(metrics["ttft_mean_ms"]) == pytest.approx(sample.ttft_ms, abs=0.0051)


@_EVERY
def test_throughput_and_tpot_are_as_printed_or_by_the_servers_count(sample: Printed) -> None:
    run = samples_read.run(sample.file)
    if run.tool in _RETOKENISING:
        throughput, tpot, to_ms = _RETOKENISING[run.tool]
        assert run.printed[throughput] == pytest.approx(sample.output_tok_per_s, abs=0.0051)
        assert run.printed[tpot] * to_ms == pytest.approx(sample.tpot_ms, abs=0.0051)
        assert run.metrics["output_tok_per_s"] == pytest.approx(_tokens(run) / _duration_s(run))
    else:
        assert _rounded(run.metrics["output_tok_per_s"]) == pytest.approx(sample.output_tok_per_s, abs=0.0051)
        assert _rounded(run.metrics["tpot_mean_ms"]) == pytest.approx(sample.tpot_ms, abs=0.0051)


@_EVERY
def test_acceptance_is_a_fraction_and_a_length_as_printed(sample: Printed) -> None:
    metrics = samples_read.run(sample.file).metrics
    if sample.rate_percent is None or sample.length is None:
        return
    rate, length, per_position = (metrics[f"acceptance_{name}"] for name in ("rate", "length", "per_position"))
    assert isinstance(rate, float)
    assert rate * 100 == pytest.approx(sample.rate_percent, abs=0.0051)
    assert length == pytest.approx(sample.length, abs=0.00051)
    assert isinstance(per_position, tuple)
    assert length == pytest.approx(1 + sum(per_position))


@_EVERY
def test_every_run_has_every_column_and_no_doubt(sample: Printed) -> None:
    run = samples_read.run(sample.file)
    assert list(run.metrics) == [metric.name for metric in METRICS]
    assert list(run.columns) == list(COLUMNS)
    assert run.doubts == ()
    assert len(run.source.sha256) == 64
    assert all(value is None or isinstance(value, tuple) or math.isfinite(value) for value in run.metrics.values())


@_EVERY
def test_a_gap_between_chunks_is_never_a_time_of_a_token(sample: Printed) -> None:
    run = samples_read.run(sample.file)
    assert run.metrics["itl_mean_ms"] is None
    if run.tool.startswith(("vllm", "sglang")):
        assert run.metrics["icl_mean_ms"] == pytest.approx(run.printed["mean_itl_ms"], rel=1e-9)


@_EVERY
def test_the_requests_are_there_in_the_order_of_their_places(sample: Printed) -> None:
    run = samples_read.run(sample.file)
    assert run.requests is not None
    assert run.requests.texts("index").to_pylist() == list(range(len(run.requests)))
    assert len(run.requests.completed) == sample.completed


def test_every_sample_file_with_a_run_has_its_printed_figures() -> None:
    assert len(PRINTED) == 33
    assert len({samples_read.run(sample.file).run_id for sample in PRINTED}) == 33


def _tokens(run: ImportedRun) -> int:
    tokens = run.metrics["completion_tokens"]
    assert isinstance(tokens, int)
    return tokens


def _duration_s(run: ImportedRun) -> float:
    duration_s = run.metrics["duration_s"]
    assert isinstance(duration_s, float)
    return duration_s
