"""The warehouse's tables (DuckDB), each with what it means. Its views stand in `views`.

Tables are made by migrations/warehouse. None has a foreign key, and only two have an index, because DuckDB refuses most
changes to a table that has one.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from lab.metrics import histogram
from lab.metrics.catalogue import METRICS
from lab.metrics.definition import Metric
from warehouse.app_db import schema as app_schema
from warehouse.published.columns import (
    DOUBT_COLUMNS,
    FIGURE_COLUMNS,
    PUBLISHED_METRICS,
    PUBLISHED_RUN_COLUMNS,
    SOURCE_COLUMNS,
)
from warehouse.schema import prompt_latency_columns
from warehouse.schema.column import Column, column, table
from warehouse.schema.request_columns import REQUEST_COLUMNS, TELEMETRY_COLUMNS
from warehouse.schema.run_columns import RUN_COLUMNS

WAREHOUSE = sa.MetaData()
_RUN_ID = column("run_id", "text", "the run")


def _metric_column(metric: Metric) -> Column:
    """Counts are BIGINT, unless they are means; everything else that is one number is DOUBLE."""
    counted = metric.unit in ("requests", "tokens", "rounds", "bytes") and "_mean" not in metric.name
    kind = "bigint?" if counted else "double?"
    kind = "doubles?" if metric.name == "acceptance_per_position" else kind
    return column(metric.name, kind, metric.comment, lambda values: values[metric.name])


METRIC_COLUMNS: tuple[Column, ...] = tuple(map(_metric_column, METRICS))
PUBLISHED_COLUMNS: tuple[Column, ...] = (
    *PUBLISHED_RUN_COLUMNS,
    *(each for each in METRIC_COLUMNS if each.name in PUBLISHED_METRICS),
)


def _replica(source: sa.Table) -> tuple[Column, ...]:
    """The columns of a table of the app database that the warehouse replicates: those that say what they mean."""
    return tuple(_replicated(each, each.doc) for each in source.columns if each.doc is not None)


def _replicated(source: sa.Column[Any], comment: str) -> Column:
    kind = _REPLICA_KINDS[type(source.type)]
    return column(source.name, f"{kind}?" if source.nullable else kind, comment)


_REPLICA_KINDS: dict[type[sa.types.TypeEngine[Any]], str] = {
    sa.Text: "text",
    sa.Integer: "int",
    sa.Double: "double",
    sa.Date: "date",
    app_schema.UtcDateTime: "moment",
}
STUDY_COLUMNS, JOB_COLUMNS, PRICE_COLUMNS = map(_replica, (app_schema.studies, app_schema.jobs, app_schema.prices))
VERDICT_COLUMNS: tuple[Column, ...] = (
    column("is_valid", "bool", "false where a check found what makes the run's figures wrong", "valid"),
    column("why_invalid", "texts", "a sentence for each such check; empty for a valid run"),
    column(
        "unjudged_checks",
        "texts",
        "checks that could not look, because something they need is unknown",
        lambda verdict: [skipped.check for skipped in verdict.skipped],
    ),
)
FINDING_COLUMNS: tuple[Column, ...] = (
    column("check_name", "text", "the check that fired; `drafthouse checks` and docs/checks.md explain each", "check"),
    column("severity", "text", "invalid, warning or note"),
    column("sentence", "text", "what it found, with the run's own figures"),
    column("advice", "text", "what to do about it"),
)
STUDY_VERDICT_COLUMNS: tuple[Column, ...] = (
    column("job_id", "text", "the job"),
    column("runs_judged", "int", "how many runs it had when they were judged together"),
    column("unjudged_checks", "texts", "checks that could not look, because something they need is unknown"),
)
STUDY_FINDING_COLUMNS: tuple[Column, ...] = (
    column("job_id", "text", "the job"),
    *FINDING_COLUMNS,
    column("run_ids", "texts", "the runs it is about; empty: all of them"),
)
_HISTOGRAM_COLUMNS = (
    _RUN_ID,
    column("metric", "text", "ttft, tpot, itl, icl or e2e, in ms"),
    column("bucket", "int", f"number of the bucket; its values in ms are about {histogram.VALUE_FORMULA}"),
    column("count", "bigint", "how many values fell into it"),
)
IMPORTED_FIGURE_COLUMNS: tuple[Column, ...] = (
    column("field", "text", "the tool's own name of it; docs/importing.md says what each became"),
    column("value", "double?", "the figure in the tool's own unit; null where it is no number"),
    column("left_out", "text?", "why it became no column; null where it did"),
)
_REJECTED_COLUMNS = (
    column("path", "text", "the folder, relative to the bundles"),
    column("error", "text", "why it was rejected"),
    column("rejected_at", "moment", "when it was tried"),
)

studies = table(WAREHOUSE, "studies", "What users submitted, mirrored from the app database", STUDY_COLUMNS)
jobs = table(
    WAREHOUSE,
    "jobs",
    "Studies on their way through the queue, mirrored from the app database; no measurement depends on it",
    JOB_COLUMNS,
)
prices = table(
    WAREHOUSE,
    "prices",
    "What an hour of hardware costs, mirrored from the app database: entries are added and withdrawn, never changed",
    PRICE_COLUMNS,
)
runs = table(
    WAREHOUSE,
    "runs",
    "One row a run: what was run, its circumstances and how it went. The view results adds its numbers",
    RUN_COLUMNS,
)
sa.Index("each_once_runs_run_id", runs.c.run_id, unique=True)
run_metrics = table(
    WAREHOUSE,
    "run_metrics",
    "The numbers of each run, computed once from its bundle; null means unknown, never zero",
    (_RUN_ID, *METRIC_COLUMNS),
)
request_records = table(
    WAREHOUSE,
    "request_records",
    "One row a request, as measured, with its own latencies. The view requests adds what its run was",
    (_RUN_ID, *REQUEST_COLUMNS),
)
prompt_latency_lists = table(
    WAREHOUSE,
    "prompt_latencies",
    "One row a run: the latencies of its prompts as lists, for comparisons that pair runs by prompt",
    (_RUN_ID, *prompt_latency_columns.COLUMNS),
)
sa.Index("by_prompt_latencies_run_id", prompt_latency_lists.c.run_id)
prompt_lists = table(
    WAREHOUSE,
    "prompt_lists",
    "Which prompts the lists of prompt_latencies are about, once for all runs that sent the same",
    prompt_latency_columns.LIST_COLUMNS,
)
verdicts = table(
    WAREHOUSE,
    "verdicts",
    "Whether each run's figures can be believed. A run that was ingested before there were checks has no row",
    (_RUN_ID, *VERDICT_COLUMNS),
)
findings = table(
    WAREHOUSE,
    "findings",
    "What the checks found in each run: a row for each check that fired",
    (_RUN_ID, *FINDING_COLUMNS),
)
study_verdicts = table(
    WAREHOUSE,
    "study_verdicts",
    "Which jobs were judged as a whole, after their runs were judged one by one",
    STUDY_VERDICT_COLUMNS,
)
study_findings = table(
    WAREHOUSE,
    "study_findings",
    "What only the runs of a job together show: a single repeat, arms that differ in more than speculation ...",
    STUDY_FINDING_COLUMNS,
)
telemetry = table(
    WAREHOUSE,
    "telemetry",
    "One row a second of a run's measured window: the measuring client, the engine, the host and the GPUs that the "
    "engine uses; null where there is nothing to read. The view results has the means",
    (_RUN_ID, *TELEMETRY_COLUMNS),
)
histograms = table(
    WAREHOUSE,
    "histograms",
    "Latencies of each run as counts on a logarithmic scale. Add the counts of several runs to pool them: percentiles "
    f"of the sum are those of all their values together, to {histogram.RELATIVE_ERROR:.1%}",
    _HISTOGRAM_COLUMNS,
)
imported_figures = table(
    WAREHOUSE,
    "imported_figures",
    "The figures of imported runs as their tool printed them, with its names and units, and what became no column",
    (_RUN_ID, *IMPORTED_FIGURE_COLUMNS),
)
published_sources = table(
    WAREHOUSE, "published_sources", "Who published figures that ship with Drafthouse", SOURCE_COLUMNS
)
published_results = table(
    WAREHOUSE, "published_results", "Figures that others published, each as it was printed", FIGURE_COLUMNS
)
published_runs = table(
    WAREHOUSE,
    "published_runs",
    "Published figures that are runs: the absolute ones of one setting. They stand in results too",
    PUBLISHED_COLUMNS,
)
published_doubts = table(
    WAREHOUSE, "published_doubts", "Published figures that do not follow from each other", DOUBT_COLUMNS
)
rejected_bundles = table(
    WAREHOUSE,
    "rejected_bundles",
    "Run folders that could not be read; each is tried again when the ingester starts",
    _REJECTED_COLUMNS,
)
