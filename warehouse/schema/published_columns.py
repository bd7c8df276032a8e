"""The published results as rows: sources, figures as printed, doubts, and runs.

A run is the absolute figures of one setting, in Drafthouse's own columns and units.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lab.metrics.catalogue import METRICS
from lab.metrics.measure import Value
from lab.published.figures import PublishedFigure
from warehouse.schema.column import Column, column
from warehouse.schema.run_columns import RUN_COLUMNS

#: Column and unit of each printed metric that has a column. Relative figures, peaks over loads and costs have none.
_COLUMNS: dict[str, tuple[str, str]] = {
    "output_throughput": ("output_tok_per_s", "tok/s"),
    "total_token_throughput": ("total_tok_per_s", "tok/s"),
    "mean_ttft": ("ttft_mean_ms", "ms"),
    "mean_tpot": ("tpot_mean_ms", "ms"),
    "acceptance_rate": ("acceptance_rate", "%"),
    "acceptance_length": ("acceptance_length", "tokens"),
    "duration": ("duration_s", "s"),
}
_POSITION = "acceptance_rate_pos"
SOURCE_COLUMNS: tuple[Column, ...] = (
    column("source", "text", "names the source", "id"),
    column("date", "text", "of publication"),
    column("title", "text", "in our words"),
    column("method", "text", "how they measured"),
    column("preset", "text?", "what `drafthouse replicate SOURCE` measures"),
)
FIGURE_COLUMNS: tuple[Column, ...] = (
    column("number", "int", "from 1"),
    column("source", "text", "who published it"),
    column("study", "text", "the source's experiment"),
    column("hardware", "text", "as the source names it"),
    column("engine", "text", "the engine that served"),
    column("engine_version", "text?", "if the source says"),
    column("target", "text", "the model that was served"),
    column("method", "text", "method of speculation; none without"),
    column("draft_model", "text?", "as the source names it"),
    column("num_speculative_tokens", "int?", "tokens drafted per round"),
    column("dataset", "text", "as the source names it"),
    column("access_pattern", "text", "in the source's words"),
    column("load", "text?", "the concurrency, or geomean, peak"),
    column("metric", "text", "in the source's words"),
    column("printed", "text", "the digits as printed"),
    column("value", "double", "as a number, in `unit`"),
    column("unit", "text", "of the value"),
    column("scale", "text", "absolute, percent of baseline or percent change"),
    column("ratio_to_baseline", "double?", "of a relative figure: 1.254 for 125.4 % or +25.4 %"),
    column("price_usd_per_hour", "double?", "the price behind a cost"),
    column("note", "text?", "of the source, or ours"),
    column("run_id", "text?", "its run in results, if it belongs to one"),
)
DOUBT_COLUMNS: tuple[Column, ...] = (
    column("check_name", "text", "the check that fired", "check"),
    column("source", "text", "the source of the figures"),
    column("sentence", "text", "the contradiction"),
    column("numbers", "ints", "the figures' numbers"),
    column("run_ids", "texts", "the runs of these figures"),
)
#: The columns of `runs` that a printed table can fill.
_OF_RUNS = (
    *("run_id", "cell_key", "job_id", "study_id", "study_name", "target", "arm", "method", "draft_model"),
    *("num_speculative_tokens", "workload", "dataset", "pattern", "concurrency", "status", "error", "hardware"),
    *("engine", "engine_version", "origin"),
)
_METRICS = {name for name, _ in _COLUMNS.values()} | {"acceptance_per_position"}
PUBLISHED_RUN_COLUMNS: tuple[Column, ...] = tuple(column for column in RUN_COLUMNS if column.name in _OF_RUNS)
PUBLISHED_METRICS: tuple[str, ...] = tuple(metric.name for metric in METRICS if metric.name in _METRICS)


@dataclass(frozen=True)
class PublishedRun:
    """A run of published figures. `first` holds the setting; `metrics` has all of METRICS, None if not printed."""

    run_id: str
    first: PublishedFigure
    status: str  # failed if an engine or a draft model did not start
    metrics: Mapping[str, Value]
    figures: tuple[PublishedFigure, ...]


def runs(figures: Sequence[PublishedFigure]) -> tuple[PublishedRun, ...]:
    """One run per setting with an absolute figure that has a column; two values of one metric give two runs."""
    groups: dict[tuple[object, ...], list[PublishedFigure]] = defaultdict(list)
    for figure in figures:
        if _belongs(figure):
            again = sum(
                published.metric == figure.metric
                for key, group in groups.items()
                for published in group
                if key[:-1] == figure.setting
            )
            groups[(*figure.setting, again)].append(figure)
    return tuple(_run(key, group) for key, group in groups.items())


def _belongs(figure: PublishedFigure) -> bool:
    if figure.scale != "absolute" or (figure.max_concurrency is None and figure.metric != "deployed"):
        return False
    return figure.metric in _COLUMNS or figure.metric == "deployed" or figure.metric.startswith(_POSITION)


def _run(key: tuple[object, ...], group: Sequence[PublishedFigure]) -> PublishedRun:
    metrics: dict[str, Value] = dict.fromkeys(metric.name for metric in METRICS)
    for figure in group:
        if figure.metric in _COLUMNS:
            name, unit = _COLUMNS[figure.metric]
            if figure.unit != unit:
                raise ValueError(f"{figure.metric} in {figure.unit}, not in {unit}")
            metrics[name] = figure.value * 0.01 if unit == "%" else figure.value
    positions = {figure.metric: figure.value / 100 for figure in group if figure.metric.startswith(_POSITION)}
    if positions:
        metrics["acceptance_per_position"] = tuple(positions[f"{_POSITION}{i}"] for i in range(len(positions)))
    text = json.dumps(["published", *key], separators=(",", ":"))
    return PublishedRun(
        run_id=hashlib.sha256(text.encode()).hexdigest(),
        first=group[0],
        status="failed" if any(figure.metric == "deployed" and not figure.value for figure in group) else "completed",
        metrics=metrics,
        figures=tuple(group),
    )
