"""Which way is better, of the metrics of a run and of the costs that follow from them."""

from __future__ import annotations

from typing import Literal

from lab.metrics.catalogue import METRICS

Better = Literal["higher", "lower"]

_DECLARED = {metric.name: metric.better for metric in METRICS}


def better(metric: str) -> Better:
    """Raises ValueError where no direction is better. Whatever begins with `cost` or `energy` is better when lower."""
    found = _DECLARED.get(metric, "lower" if metric.startswith(("cost", "energy")) else "neither")
    if found == "neither":
        raise ValueError(f"{metric} has no better direction, so nothing is faster or slower by it")
    return found
