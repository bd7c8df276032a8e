"""The metrics that the results page offers, the default first. A metric's label is also its value in a link."""

from __future__ import annotations

from lab.metrics.catalogue import BY_NAME

MEASURES = tuple(
    BY_NAME[name]
    for name in (
        *("output_tok_per_s", "total_tok_per_s", "request_per_s", "goodput_request_per_s"),
        *("ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms", "tpot_p99_ms", "e2e_p50_ms", "e2e_p99_ms"),
    )
)
BY_LABEL = {metric.label: metric for metric in MEASURES}
