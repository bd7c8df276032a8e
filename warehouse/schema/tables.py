"""The warehouse's tables (DuckDB), each with its meaning. The views are in `views`.

Tables are created by migrations/warehouse. No table has a foreign key, because DuckDB refuses most changes to a table
that has one, nor an index: to such a table DuckDB adds rows by rewriting up to 122,880 of its last ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from lab.metrics import histogram
from lab.metrics.catalogue import METRICS, STATISTICS
from lab.metrics.definition import Metric
from warehouse.app_db import schema as app_schema
from warehouse.schema import request_columns
from warehouse.schema.column import Column, column
from warehouse.schema.judgement_columns import JUDGED_ARM_COLUMNS, JUDGED_METRIC_COLUMNS, JUDGEMENT_COLUMNS
from warehouse.schema.published_columns import (
    DOUBT_COLUMNS,
    FIGURE_COLUMNS,
    PUBLISHED_METRICS,
    PUBLISHED_RUN_COLUMNS,
    SOURCE_COLUMNS,
)
from warehouse.schema.request_columns import STORED_REQUEST_COLUMNS, TELEMETRY_COLUMNS
from warehouse.schema.run_columns import RUN_COLUMNS

WAREHOUSE = sa.MetaData()
RUN_ID = column("run_id", "text", "the run")
#: DuckDB notes the least and the greatest number of each group of rows, but of texts only their first eight letters,
#: which ids share.
RUN_STARTED_AT = column(
    "run_started_at",
    "moment?",
    "the run's started_at; compared beside run_id it skips other runs' rows",
)


def _metric_column(metric: Metric) -> Column:
    kind = "doubles?" if metric.has_several else "bigint?" if metric.is_whole else "double?"
    return column(metric.name, kind, metric.comment)


METRIC_COLUMNS: tuple[Column, ...] = tuple(map(_metric_column, METRICS))
ROUND_COLUMNS: tuple[Column, ...] = (
    column("round", "int", "from 0; a round sends the same prompts on every arm"),
    column("started_at", "moment", "when its window began"),
    column("start_s", "double", "bounds of its window on the run's clock"),
    column("end_s", "double", "bounds of its window on the run's clock"),
    *METRIC_COLUMNS,
)
PUBLISHED_COLUMNS: tuple[Column, ...] = (
    *PUBLISHED_RUN_COLUMNS,
    *(column for column in METRIC_COLUMNS if column.name in PUBLISHED_METRICS),
)


_REPLICA_KINDS: dict[type[sa.types.TypeEngine[Any]], str] = {
    sa.Text: "text",
    sa.Integer: "int",
    sa.Double: "double",
    sa.Date: "date",
    app_schema.UtcDateTime: "moment",
}


def _replica(source: sa.Table) -> tuple[Column, ...]:
    """Return the columns that the warehouse replicates from a table of the app database: those with a `doc`."""
    return tuple(
        column(of_app.name, _REPLICA_KINDS[type(of_app.type)] + "?" * bool(of_app.nullable), of_app.doc)
        for of_app in source.columns
        if of_app.doc is not None
    )


STUDY_COLUMNS, JOB_COLUMNS, PRICE_COLUMNS = map(_replica, (app_schema.studies, app_schema.jobs, app_schema.prices))
CURATED_COLUMNS = _replica(app_schema.curated_studies)
SERIES_COLUMNS, NIGHT_COLUMNS, ALARM_COLUMNS = map(_replica, (app_schema.series, app_schema.nights, app_schema.alarms))
VERDICT_COLUMNS: tuple[Column, ...] = (
    column("is_valid", "bool", "false if a check found its figures wrong", "valid"),
    column("why_invalid", "texts", "a sentence from each such check"),
    column(
        "unjudged_checks",
        "texts",
        "checks skipped because something is unknown",
        lambda verdict: [skipped.check for skipped in verdict.skipped],
    ),
)
FINDING_COLUMNS: tuple[Column, ...] = (
    column("check_name", "text", "see docs/checks.md", "check"),
    column("severity", "text", "invalid, warning or note"),
    column("sentence", "text", "what the check found, with figures"),
    column("advice", "text", "what to do about it"),
)
STUDY_VERDICT_COLUMNS: tuple[Column, ...] = (
    column("job_id", "text", "the job"),
    column("runs_judged", "int", "number of its runs then"),
    column("unjudged_checks", "texts", "checks skipped because something is unknown"),
)
STUDY_FINDING_COLUMNS: tuple[Column, ...] = (
    column("job_id", "text", "the job"),
    *FINDING_COLUMNS,
    column("run_ids", "texts", "the runs concerned; empty: all"),
)
CAPACITY_COLUMNS: tuple[Column, ...] = (
    column("job_id", "text", "the job"),
    column("arm", "text", "name of the arm"),
    column("is_baseline", "bool", "whether it is the job's baseline"),
    column("method", "text?", "method of speculation; none without"),
    column("num_speculative_tokens", "int?", "tokens drafted per round; null without speculation"),
    column("workload", "text", "short name of the workload"),
    column("category", "text", "category of the prompts, or all"),
    column("pattern", "text", "the load that searches"),
    column("concurrency", "int", "most requests in flight in any trial"),
    column("find", "text", "rate (requests per second) or concurrency"),
    column("slo_share", "double", "share of requests that must meet the SLO"),
    column("repeat", "int?", "null: all repeats together"),
    column("capacity", "double?", "greatest load that keeps the SLO; null if the search's bounds exclude it"),
    column("low", "double?", "bound of its 95 % interval, or a load that kept the SLO"),
    column("high", "double?", "bound of its 95 % interval, or a load that did not keep the SLO"),
    column("trials", "int", "valid trials"),
    column("requests", "bigint", "their requests"),
    column("goodput_tok_per_s", "double?", "at the capacity, within the SLO"),
)
_HISTOGRAM_COLUMNS = (
    RUN_ID,
    column("metric", "text", "ttft, tpot, itl, icl or e2e, in ms"),
    column("bucket", "int", f"number of the bucket; its values in ms are about {histogram.VALUE_FORMULA}"),
    column("count", "bigint", "values in it"),
)
#: Latencies by turn and context have the statistics, and the names, of whole runs' latencies.
_GROUPED = tuple(f"{name}_{statistic}_ms" for name in ("ttft", "tpot", "e2e") for statistic in STATISTICS)
REQUEST_GROUP_COLUMNS: tuple[Column, ...] = (
    column("grain", "text", "turn, context, or both; never add up several"),
    column("turn", "int?", "turn of the session; 9 is 9 to 16, 17 is 17 to 32 ..."),
    column("context_tokens", "int?", "longest context: powers of two from 256 on"),
    column("requests", "bigint", "completed requests"),
    column("completion_tokens", "bigint?", "their output tokens"),
    column("prompt_tokens_mean", "double?", "mean length of the contexts"),
    *(column(metric.name, "double?", metric.comment) for metric in METRICS if metric.name in _GROUPED),
    column("num_drafts", "bigint?", "verification rounds, by the server's report"),
    column("num_draft_tokens", "bigint?", "tokens drafted"),
    column("num_accepted_tokens", "bigint?", "drafted tokens accepted"),
    column("acceptance_rate", "double?", "as in results; null for a trace without texts"),
    column("acceptance_length", "double?", "as in results; null for a trace without texts"),
)
IMPORTED_FIGURE_COLUMNS: tuple[Column, ...] = (
    column("field", "text", "the tool's name of the figure"),
    column("value", "double?", "in the tool's unit"),
    column("left_out", "text?", "why it became no column"),
)
_ARCHIVED_COLUMNS = (
    RUN_ID,
    column("file", "text", "file in the folder archive of the home"),
    column("archived_at", "moment", "when `drafthouse archive` moved them"),
)
_REJECTED_COLUMNS = (
    column("path", "text", "the bundle's folder, or the job"),
    column("error", "text", "a sentence, and a traceback if unexpected"),
    column("rejected_at", "moment", "when this error first came"),
)

#: The tables with their meanings and columns.
_TABLES: tuple[tuple[str, str, Sequence[Column]], ...] = (
    ("studies", "The submitted studies", STUDY_COLUMNS),
    ("jobs", "Studies in the queue and after it", JOB_COLUMNS),
    (
        "curated_studies",
        "Studies, own and imported, that somebody named, noted, tagged, hid or deleted",
        CURATED_COLUMNS,
    ),
    ("prices", "The price book: entries are added or withdrawn, never changed", PRICE_COLUMNS),
    ("series", "Studies measured by a schedule", SERIES_COLUMNS),
    ("nights", "One row per arm of a night or re-measurement of a series", NIGHT_COLUMNS),
    ("alarms", "Confirmed changes of series, and series without data", ALARM_COLUMNS),
    ("runs", "One row per run, with what the view results leaves out", RUN_COLUMNS),
    ("run_metrics", "The metrics of each run", (RUN_ID, *METRIC_COLUMNS)),
    ("rounds", "One row per round of each run in rounds, with its own metrics", (RUN_ID, *ROUND_COLUMNS)),
    ("recent_requests", "The requests that are not in the archive", (RUN_ID, *STORED_REQUEST_COLUMNS, RUN_STARTED_AT)),
    ("archived_runs", "Runs whose requests are in the archive", _ARCHIVED_COLUMNS),
    (
        "prompt_latencies",
        "The latencies of each run by prompt, as lists",
        (RUN_ID, *request_columns.PROMPT_LATENCY_COLUMNS),
    ),
    ("prompt_lists", "The prompts of prompt_latencies", request_columns.PROMPT_LIST_COLUMNS),
    ("run_validity", "Whether each run is valid", (RUN_ID, *VERDICT_COLUMNS)),
    ("findings", "One row per run and check that fired", (RUN_ID, *FINDING_COLUMNS)),
    ("study_validity", "Jobs whose runs were judged together", STUDY_VERDICT_COLUMNS),
    ("study_findings", "What checks found in the runs of a job together", STUDY_FINDING_COLUMNS),
    ("capacities", "What capacity searches found, for each repeat and for all", CAPACITY_COLUMNS),
    ("judgements", "When a job's verdicts were computed, and from what", JUDGEMENT_COLUMNS),
    ("judged_metrics", "The metrics of a judgement", JUDGED_METRIC_COLUMNS),
    ("judged_arms", "What the view comparisons shows", JUDGED_ARM_COLUMNS),
    (
        "telemetry",
        "One row per second of the window: client, engine, host and the engine's GPUs",
        (RUN_ID, *TELEMETRY_COLUMNS),
    ),
    (
        "histograms",
        (
            "Latencies of each run as counts on a logarithmic scale. The added counts of several runs have the "
            f"percentiles of all their values, to {histogram.RELATIVE_ERROR:.1%}"
        ),
        _HISTOGRAM_COLUMNS,
    ),
    (
        "request_groups",
        "The numbers of each measured run by turn and by context length",
        (RUN_ID, *REQUEST_GROUP_COLUMNS),
    ),
    (
        "imported_figures",
        "Every figure of imported runs under the tool's name and unit",
        (RUN_ID, *IMPORTED_FIGURE_COLUMNS),
    ),
    ("published_sources", "The publications", SOURCE_COLUMNS),
    ("published_results", "Published figures, each as it was printed", FIGURE_COLUMNS),
    ("published_runs", "Absolute published figures as runs. They are in results, too", PUBLISHED_COLUMNS),
    ("published_doubts", "Contradictions in published figures", DOUBT_COLUMNS),
    (
        "rejected_bundles",
        "Bundles that could not be ingested, and jobs that could not be judged",
        _REJECTED_COLUMNS,
    ),
)
for _name, _meaning, _columns in _TABLES:
    sa.Table(
        _name,
        WAREHOUSE,
        *(sa.Column(c.name, c.types[0], nullable=c.nullable, comment=c.comment) for c in _columns),
        comment=_meaning,
    )
