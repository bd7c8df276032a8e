"""MLPerf inference: mlperf_log_summary.txt, in which LoadGen sums up a run. Its latencies are nanoseconds."""

from __future__ import annotations

from collections.abc import Mapping

from interchange.fields import OTHER_PERCENTILE, Figure, Taken
from interchange.formats.aggregates.declared import declared
from interchange.typed_json import Part

_MS = 1e-6
_E2E, _TTFT, _TPOT = (
    ("latency (ns)", "e2e"),
    ("first token latency (ns)", "ttft"),
    ("time to output token (ns)", "tpot"),
)
_MEANS = {
    "Mean latency (ns)": "e2e",
    "Mean First Token latency (ns)": "ttft",
    "Mean Time to Output Token (ns)": "tpot",
}
_FIGURES: tuple[Figure, ...] = (
    Figure("Completed samples per second", "request_per_s"),
    Figure("Samples per second", "request_per_s", "scenario Offline"),
    Figure("Completed tokens per second", "output_tok_per_s"),
    Figure("Tokens per second", "output_tok_per_s", "scenario Offline"),
    Figure("target_qps", "request_rate_rps", "scenario Server, with Poisson arrivals"),
    *(Figure(path, f"{ours}_mean_ms", factor=_MS) for path, ours in _MEANS.items()),
    *(
        Figure(f"{q}.00 percentile {name}", f"{ours}_p{q}_ms", factor=_MS)
        for name, ours in (_E2E, _TTFT, _TPOT)
        for q in (50, 90, 95, 99)
    ),
    *(
        Figure(f"{q} percentile {name}", None, OTHER_PERCENTILE)
        for name, _ in (_E2E, _TTFT, _TPOT)
        for q in ("97.00", "99.90")
    ),
    Figure("Scheduled samples per second", None, "the rate of sending, not the requested one"),
    *(
        Figure(f"{name} (inferred)", None, "from a mean number of tokens")
        for name in ("Completed tokens per second", "Tokens per second")
    ),
    Figure("Scheduled tokens per second", None, "of requests sent, not completed"),
)
_NOTES = {
    "Result is": "a doubt, if INVALID; so are errors encountered",
    "Mode": "AccuracyOnly is refused: it measures no speed",
    "Scenario, SUT name, test parameters": "labels. The file names no model: give a label target",
}


def _adjust(part: Part, taken: Taken) -> Mapping[str, str]:
    if part.content.get("Mode") == "AccuracyOnly":
        raise part.document.error((), "an accuracy run of MLPerf measures no speed: import that of performance/run_1")
    if part.content.get("Scenario") != "Server":
        taken.columns.pop("request_rate_rps", None)
    if part.content.get("Result is") == "INVALID":
        taken.doubts.append("LoadGen calls the result INVALID")
    if errors := part.content.get("errors encountered"):
        taken.doubts.append(f"LoadGen met {errors} errors")
    return {}


FORMAT = declared(
    "mlperf-loadgen",
    "MLPerf LoadGen, mlperf_log_summary.txt of language models",
    "MLPerf inference 4.1",
    _FIGURES,
    _NOTES,
    keys=("MLPerf Results Summary",),
    not_labels=("MLPerf Results Summary",),
    adjust=_adjust,
)
