"""Runs of published figures: the absolute figures of one setting, in Drafthouse's own columns and units."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.metrics.catalogue import METRICS
from lab.metrics.measure import Value
from lab.published.figures import PublishedFigure

#: Column and factor of each printed metric that has a column. Relative figures, peaks over loads and costs have none.
COLUMNS: dict[str, tuple[str, float]] = {
    "output_throughput": ("output_tok_per_s", 1.0),
    "total_token_throughput": ("total_tok_per_s", 1.0),
    "mean_ttft": ("ttft_mean_ms", 1.0),
    "mean_tpot": ("tpot_mean_ms", 1.0),
    "acceptance_rate": ("acceptance_rate", 0.01),
    "acceptance_length": ("acceptance_length", 1.0),
    "duration": ("duration_s", 1.0),
}
_UNITS = {
    "output_tok_per_s": "tok/s",
    "total_tok_per_s": "tok/s",
    "ttft_mean_ms": "ms",
    "tpot_mean_ms": "ms",
    "acceptance_rate": "%",
    "acceptance_length": "tokens",
    "duration_s": "s",
}
_POSITION = "acceptance_rate_pos"


@dataclass(frozen=True)
class PublishedRun:
    """A run of published figures. `first` holds the setting; `metrics` has all of METRICS, None if not printed."""

    run_id: str
    first: PublishedFigure
    status: str  # failed if an engine or a draft model did not start
    metrics: Mapping[str, Value]
    figures: tuple[PublishedFigure, ...]
    notes: tuple[str, ...]


def runs(figures: Sequence[PublishedFigure]) -> tuple[PublishedRun, ...]:
    """One run per setting with an absolute figure that has a column; two values of one metric give two runs."""
    groups: dict[tuple[object, ...], list[PublishedFigure]] = defaultdict(list)
    for figure in figures:
        if _belongs(figure):
            again = sum(
                one.metric == figure.metric for key, group in groups.items() for one in group if _is(key, figure)
            )
            groups[(*figure.setting, again)].append(figure)
    return tuple(_run(key, group) for key, group in groups.items())


def _is(key: tuple[object, ...], figure: PublishedFigure) -> bool:
    return key[:-1] == figure.setting


def _belongs(figure: PublishedFigure) -> bool:
    if figure.scale != "absolute" or (figure.max_concurrency is None and figure.metric != "deployed"):
        return False
    return figure.metric in COLUMNS or figure.metric == "deployed" or figure.metric.startswith(_POSITION)


def _run(key: tuple[object, ...], group: Sequence[PublishedFigure]) -> PublishedRun:
    metrics: dict[str, Value] = dict.fromkeys(metric.name for metric in METRICS)
    for figure in group:
        if figure.metric in COLUMNS:
            name, factor = COLUMNS[figure.metric]
            if figure.unit != _UNITS[name]:
                raise ValueError(f"{figure.metric} in {figure.unit}, not in {_UNITS[name]}")
            metrics[name] = figure.value if factor == 1.0 else figure.value * factor
    positions = {figure.metric: figure.value / 100 for figure in group if figure.metric.startswith(_POSITION)}
    if positions:
        metrics["acceptance_per_position"] = tuple(positions[f"{_POSITION}{i}"] for i in range(len(positions)))
    text = json.dumps(["published", *key], separators=(",", ":"))
    return PublishedRun(
        run_id=hashlib.sha256(text.encode()).hexdigest(),
        first=group[0],
        status="failed" if any(one.metric == "deployed" and not one.value for one in group) else "completed",
        metrics=metrics,
        figures=tuple(group),
        notes=tuple(dict.fromkeys(figure.note for figure in group if figure.note)),
    )
