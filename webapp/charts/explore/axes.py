"""What the Explore page's charts are made of, in words: numbers of a run with their units, and dimensions. Pure.

A label is also its name in a link.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from lab.metrics.catalogue import METRICS
from lab.metrics.definition import Metric
from webapp.charts.measures import MEASURES

Kind = Literal["number", "time", "ordinal"]
#: How a unit is shown, and by what its numbers are multiplied then.
_UNITS = {"fraction": ("%", 100.0), "percent": ("%", 1.0), "bytes": ("GiB", 2.0**-30)}
_LATENCIES = {
    "ttft": "Time to first token",
    "tpot": "Time per output token",
    "itl": "Inter-token latency",
    "icl": "Inter-chunk latency",
    "e2e": "Request latency",
}
_WORDS = {
    "requests_completed": "Requests completed",
    "requests_failed": "Requests failed",
    "duration_s": "Duration",
    "prompt_tokens": "Prompt tokens",
    "completion_tokens": "Output tokens",
    "num_drafts": "Draft rounds",
    "num_draft_tokens": "Drafted tokens",
    "num_accepted_tokens": "Accepted tokens",
    "acceptance_rate": "Acceptance rate",
    "acceptance_length": "Acceptance length",
    "prefix_cache_hit_rate": "Prefix-cache hits",
    "server_generation_tokens": "Output tokens by the server's count",
    "steady_window_s": "Steady window",
    "steady_output_tok_per_s": "Steady output throughput",
    "energy_j": "GPU energy",
    "energy_j_per_output_token": "GPU energy of an output token",
    "gpu_power_mean_w": "GPU power, mean",
    "gpu_utilisation_mean_percent": "GPU in use, mean",
    "gpu_memory_used_max_bytes": "GPU memory, most",
    "gpu_sm_clock_mean_mhz": "GPU clock, mean",
    "gpu_memory_clock_mean_mhz": "GPU memory clock, mean",
    "gpu_temperature_mean_c": "GPU temperature, mean",
    "gpu_temperature_max_c": "GPU temperature, most",
    "gpu_throttled_share": "GPU held back",
    "kv_cache_usage_max": "KV cache in use, most",
    "engine_running_mean": "Requests running, mean",
    "engine_waiting_mean": "Requests waiting, mean",
    "engine_waiting_max": "Requests waiting, most",
    "host_cpu_mean_percent": "Host CPU, mean",
    "host_memory_used_max_bytes": "Host memory, most",
}


@dataclass(frozen=True)
class Axis:
    """A column of `warehouse.queries.slices.runs` and how a reader reads it; `factor` brings its numbers to `unit`."""

    label: str
    column: str
    kind: Kind
    unit: str = ""
    factor: float = 1.0
    about: str = ""

    @property
    def title(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label


def _metric_axis(metric: Metric) -> Axis:
    unit, factor = _UNITS.get(metric.unit, (metric.unit, 1.0))
    return Axis(_label(metric.name), metric.name, "number", unit, factor, metric.formula)


def _label(name: str) -> str:
    chosen = {measure.column: measure.label for measure in MEASURES} | _WORDS
    if name in chosen:
        return chosen[name]
    latency = re.fullmatch(r"(ttft|tpot|itl|icl|e2e)_(mean|p\d\d)_ms", name)
    if latency is None:
        raise KeyError(name)
    return f"{_LATENCIES[latency[1]]} {latency[2]}"


_MEASURED = {
    axis.column: axis for axis in map(_metric_axis, (m for m in METRICS if m.name != "acceptance_per_position"))
}
PER_USER = Axis(
    "Throughput per user",
    "tok_per_s_per_user",
    "number",
    "tok/s/user",
    about="1000 / TPOT p50, in ms: what one reader sees",
)
PER_GPU = Axis(
    "Throughput per GPU",
    "tok_per_s_per_gpu",
    "number",
    "tok/s/GPU",
    about="output throughput / number of GPUs; null where that is unknown",
)
COST = Axis(
    "Cost of 10^6 output tokens",
    "cost_per_million_output_tokens",
    "number",
    "price book's currency",
    about="price of an hour / 3600 / output throughput x 10^6; null where nobody knows the price",
)
_FIRST = (*(measure.column for measure in MEASURES), "acceptance_length", "acceptance_rate")
#: Every number of a run that is one number, those that are asked for most first.
NUMBERS: tuple[Axis, ...] = (
    *(_MEASURED[name] for name in _FIRST),
    PER_USER,
    PER_GPU,
    COST,
    *(axis for name, axis in _MEASURED.items() if name not in _FIRST),
)
DIMENSIONS: tuple[Axis, ...] = (
    Axis("Concurrency", "concurrency", "ordinal", "requests in flight"),
    Axis("Arm", "arm", "ordinal"),
    Axis("Category", "category", "ordinal"),
    Axis("Dataset", "dataset", "ordinal"),
    Axis("Draft tokens k", "k", "ordinal", "tokens a round"),
    Axis("Draft model", "draft_model", "ordinal"),
    Axis("Method", "method", "ordinal"),
    Axis("Request rate", "request_rate", "ordinal", "requests/s"),
    Axis("Load", "load", "ordinal"),
    Axis("Engine", "engine", "ordinal"),
    Axis("Hardware", "hardware", "ordinal"),
    Axis("Target", "target", "ordinal"),
    Axis("Study", "study", "ordinal"),
    Axis("Origin", "origin", "ordinal"),
    Axis("Day", "day", "ordinal", "UTC"),
)
BEGUN = Axis("Date", "started_at", "time", "UTC")
LATENCIES: tuple[Axis, ...] = tuple(Axis(label, name, "number", "ms") for name, label in _LATENCIES.items())


def natural(value: str) -> tuple[int, float, str]:
    """Sorts numbers by size, then words, then what is none or unknown."""
    if value in ("none", "closed loop"):
        return 2, 0.0, value
    if value == "unknown":
        return 3, 0.0, value
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value.lower()
