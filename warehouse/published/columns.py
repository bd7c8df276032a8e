"""The columns of published results: sources, figures as printed, the runs among them, and doubts."""

from __future__ import annotations

from lab.metrics.catalogue import METRICS
from warehouse.published.runs import COLUMNS
from warehouse.schema.column import Column, column
from warehouse.schema.run_columns import RUN_COLUMNS

SOURCE_COLUMNS: tuple[Column, ...] = (
    column("source", "text", "names the source", "id"),
    column("date", "text", "when it was published, as exactly as known"),
    column("title", "text", "its subject, in our words"),
    column("method", "text", "how they measured, in our words"),
    column("preset", "text?", "the preset that repeats it: `drafthouse replicate SOURCE`; null if there is none"),
)
FIGURE_COLUMNS: tuple[Column, ...] = (
    column("number", "int", "numbers the figures, from 1"),
    column("source", "text", "who published it"),
    column("study", "text", "which of the source's experiments"),
    column("hardware", "text", "what it was measured on"),
    column("engine", "text", "the engine that served"),
    column("engine_version", "text?", "null if the source does not say"),
    column("target", "text", "the model that was served"),
    column("method", "text", "how tokens were drafted; none without speculation"),
    column("draft_model", "text?", "the draft model or head, as the source names it"),
    column("num_speculative_tokens", "int?", "tokens drafted per round"),
    column("dataset", "text", "the prompts"),
    column("access_pattern", "text", "the load, in the source's words"),
    column("load", "text?", "the concurrency, or over which ones: geomean, peak"),
    column("metric", "text", "what was measured, in the source's words"),
    column("printed", "text", "the digits as printed"),
    column("value", "double", "the same as a number, in `unit`"),
    column("unit", "text", "unit of the value"),
    column("scale", "text", "absolute, percent of baseline (= 100) or percent change from it; never made absolute"),
    column("ratio_to_baseline", "double?", "for a relative figure: 1.254 for 125.4 % of the baseline and for +25.4 %"),
    column("price_usd_per_hour", "double?", "the price from which a cost was computed"),
    column("note", "text?", "a remark of the source or ours"),
    column("run_id", "text?", "its run in results; null for a figure that belongs to no single run"),
)
DOUBT_COLUMNS: tuple[Column, ...] = (
    column("check_name", "text", "the check of published figures that fired", "check"),
    column("source", "text", "the source of the figures"),
    column("sentence", "text", "the contradiction, in a sentence"),
    column("numbers", "ints", "the numbers of the figures concerned; empty for an example of a formula"),
    column("run_ids", "texts", "the runs of these figures"),
)
#: The columns of `runs` that a printed table can fill.
_OF_RUNS = (
    *("run_id", "cell_key", "job_id", "study_id", "study_name", "target", "arm", "method", "draft_model"),
    *("num_speculative_tokens", "workload", "dataset", "pattern", "concurrency", "status", "error", "hardware"),
    *("engine", "engine_version", "origin"),
)
_METRICS = {name for name, _ in COLUMNS.values()} | {"acceptance_per_position"}
_BY_NAME = {each.name: each for each in RUN_COLUMNS}
PUBLISHED_RUN_COLUMNS: tuple[Column, ...] = tuple(
    column(name, _BY_NAME[name].kind, _BY_NAME[name].comment) for name in _OF_RUNS
)
PUBLISHED_METRICS: tuple[str, ...] = tuple(metric.name for metric in METRICS if metric.name in _METRICS)
