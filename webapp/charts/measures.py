"""The metrics a reader can choose on the results page: lab.metrics.catalogue in words."""

from __future__ import annotations

from dataclasses import dataclass

from lab.metrics.catalogue import METRICS
from lab.metrics.definition import Metric

_LABELS = {
    "output_tok_per_s": "Output throughput",
    "total_tok_per_s": "Total throughput",
    "request_per_s": "Request throughput",
    "goodput_request_per_s": "Goodput",
    "ttft_p50_ms": "Time to first token p50",
    "ttft_p99_ms": "Time to first token p99",
    "tpot_p50_ms": "Time per output token p50",
    "tpot_p99_ms": "Time per output token p99",
    "e2e_p50_ms": "Request latency p50",
    "e2e_p99_ms": "Request latency p99",
}


@dataclass(frozen=True)
class Measure:
    """A metric and what a reader calls it. The label is also its name in a link."""

    label: str
    metric: Metric

    @property
    def column(self) -> str:
        return self.metric.name

    @property
    def unit(self) -> str:
        return self.metric.unit

    @property
    def higher_is_better(self) -> bool:
        return self.metric.better == "higher"

    @property
    def title(self) -> str:
        return f"{self.label} ({self.unit})"

    @property
    def ratio_title(self) -> str:
        return "Speed-up (×)" if self.higher_is_better else "Ratio to the baseline (×)"


_BY_NAME = {metric.name: metric for metric in METRICS}
MEASURES = tuple(Measure(label, _BY_NAME[name]) for name, label in _LABELS.items())
BY_LABEL = {measure.label: measure for measure in MEASURES}
