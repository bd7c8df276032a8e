"""The warehouse's tables (DuckDB), each with its meaning. The views are in `views`.

Tables are created by migrations/warehouse. No table has a foreign key, because DuckDB refuses most changes to a table
that has one, nor an index: to such a table DuckDB adds rows by rewriting up to 122,880 of its last ones.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from lab.metrics import histogram
from lab.metrics.catalogue import METRICS, STATISTICS
from lab.metrics.definition import Metric
from warehouse.app_db import schema as app_schema
from warehouse.schema import request_columns
from warehouse.schema.column import Column, column, table
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
    "started_at of the run. A query that compares it with a moment, and not run_id alone, reads the rows of other runs "
    "not even in part",
)


def _metric_column(metric: Metric) -> Column:
    kind = "doubles?" if metric.has_several else "bigint?" if metric.is_whole else "double?"
    return column(metric.name, kind, metric.comment)


METRIC_COLUMNS: tuple[Column, ...] = tuple(map(_metric_column, METRICS))
ROUND_COLUMNS: tuple[Column, ...] = (
    column("round", "int", "number of the round within the run, from 0: the same prompts on every arm"),
    column("started_at", "moment", "when its window began: shows the order of the arms"),
    column("start_s", "double", "where its window begins on the run's clock, which stands between windows"),
    column("end_s", "double", "where its window ends"),
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
    column("is_valid", "bool", "false if a check found that the run's figures are wrong", "valid"),
    column("why_invalid", "texts", "a sentence from each such check; empty for a valid run"),
    column(
        "unjudged_checks",
        "texts",
        "checks that were skipped because something they need is unknown",
        lambda verdict: [skipped.check for skipped in verdict.skipped],
    ),
)
FINDING_COLUMNS: tuple[Column, ...] = (
    column("check_name", "text", "the check that fired; explained by `drafthouse checks` and docs/checks.md", "check"),
    column("severity", "text", "invalid, warning or note"),
    column("sentence", "text", "what the check found, with the run's own figures"),
    column("advice", "text", "what to do about it"),
)
STUDY_VERDICT_COLUMNS: tuple[Column, ...] = (
    column("job_id", "text", "the job"),
    column("runs_judged", "int", "number of its runs when they were judged together"),
    column("unjudged_checks", "texts", "checks that were skipped because something they need is unknown"),
)
STUDY_FINDING_COLUMNS: tuple[Column, ...] = (
    column("job_id", "text", "the job"),
    *FINDING_COLUMNS,
    column("run_ids", "texts", "the runs that the finding concerns; empty if all of them"),
)
CAPACITY_COLUMNS: tuple[Column, ...] = (
    column("job_id", "text", "the job"),
    column("arm", "text", "name of the arm"),
    column("is_baseline", "bool", "whether the other arms of the job are compared with this one"),
    column("method", "text?", "the method of speculation; the text none without speculation"),
    column("num_speculative_tokens", "int?", "tokens drafted per round; null without speculation"),
    column("workload", "text", "short name of the workload"),
    column("category", "text", "the category that the prompts were restricted to; the text all if they were not"),
    column("pattern", "text", "short name of the load that searches"),
    column("concurrency", "int", "most requests in flight at the same time in any trial"),
    column("find", "text", "what is searched for: rate, in requests per second, or concurrency, in requests at once"),
    column("slo_share", "double", "the share of requests that must meet the study's SLO"),
    column("repeat", "int?", "number of the repeat; null for all repeats together"),
    column("capacity", "double?", "greatest load at which that share meets the SLO; null beyond the search's bounds"),
    column("low", "double?", "lower bound of its 95 % interval; if capacity is null, a load that kept the SLO"),
    column(
        "high", "double?", "upper bound of its 95 % interval; if capacity is null, a load that did not keep the SLO"
    ),
    column("trials", "int", "valid trials from which it follows"),
    column("requests", "bigint", "requests of those trials"),
    column("goodput_tok_per_s", "double?", "output tokens a second of the requests within the SLO, at the capacity"),
)
_HISTOGRAM_COLUMNS = (
    RUN_ID,
    column("metric", "text", "ttft, tpot, itl, icl or e2e, in ms"),
    column("bucket", "int", f"number of the bucket; its values in ms are about {histogram.VALUE_FORMULA}"),
    column("count", "bigint", "number of values in the bucket"),
)
#: Latencies by turn and context have the statistics, and the names, of whole runs' latencies.
_GROUPED = tuple(f"{name}_{statistic}_ms" for name in ("ttft", "tpot", "e2e") for statistic in STATISTICS)
REQUEST_GROUP_COLUMNS: tuple[Column, ...] = (
    column("grain", "text", "what the row is of: a turn, a context, or a turn and context; do not add up several"),
    column("turn", "int?", "number of the turn within its session; 9 stands for 9 to 16, 17 for 17 to 32 and so on"),
    column("context_tokens", "int?", "longest context of the step: powers of two, from 256 tokens on"),
    column("requests", "bigint", "completed requests"),
    column("completion_tokens", "bigint?", "their output tokens"),
    column("prompt_tokens_mean", "double?", "mean length of their contexts, in tokens"),
    *(column(metric.name, "double?", metric.comment) for metric in METRICS if metric.name in _GROUPED),
    column("num_drafts", "bigint?", "verification rounds, as the server reports them for each request"),
    column("num_draft_tokens", "bigint?", "tokens drafted"),
    column("num_accepted_tokens", "bigint?", "drafted tokens accepted"),
    column("acceptance_rate", "double?", "num_accepted_tokens / num_draft_tokens; null for a trace without texts"),
    column("acceptance_length", "double?", "1 + num_accepted_tokens / num_drafts; null for a trace without texts"),
)
IMPORTED_FIGURE_COLUMNS: tuple[Column, ...] = (
    column("field", "text", "the tool's own name of the figure; docs/importing.md lists the column each became"),
    column("value", "double?", "the figure in the tool's own unit; null if it is not a number"),
    column("left_out", "text?", "why it became no column; null if it did"),
)
_ARCHIVED_COLUMNS = (
    RUN_ID,
    column("file", "text", "the file's name in the folder archive of the home"),
    column("archived_at", "moment", "when `drafthouse archive` moved them there"),
)
_REJECTED_COLUMNS = (
    column("path", "text", "the bundle's folder, relative to the folder of bundles; of a job without a run: the job"),
    column("error", "text", "why it was rejected: a sentence, then a traceback if the error was unexpected"),
    column("rejected_at", "moment", "when it was first tried with this error"),
)

studies = table(
    WAREHOUSE, "studies", "The studies that users submitted, replicated from the app database", STUDY_COLUMNS
)
jobs = table(
    WAREHOUSE,
    "jobs",
    "Studies on their way through the queue, replicated from the app database; no measurement depends on it",
    JOB_COLUMNS,
)
curated_studies = table(
    WAREHOUSE,
    "curated_studies",
    "What people added to studies, own and imported, replicated from the app database: one row per study that somebody "
    "named, noted, tagged, hid or deleted. The view results has the names and tags",
    CURATED_COLUMNS,
)
prices = table(
    WAREHOUSE,
    "prices",
    "The price of an hour of hardware, replicated from the app database: entries are added or withdrawn, never changed",
    PRICE_COLUMNS,
)
series = table(
    WAREHOUSE, "series", "Studies that are measured again and again, replicated from the app database", SERIES_COLUMNS
)
nights = table(
    WAREHOUSE,
    "nights",
    "One row per night of a series, and per re-measurement of one: its value as it was stored, or why there is none",
    NIGHT_COLUMNS,
)
alarms = table(
    WAREHOUSE, "alarms", "Confirmed changes of series, and series without data, replicated likewise", ALARM_COLUMNS
)
runs = table(
    WAREHOUSE,
    "runs",
    "One row per run: what was run, in what environment and how it went. The view results adds its metrics",
    RUN_COLUMNS,
)
run_metrics = table(
    WAREHOUSE,
    "run_metrics",
    "The metrics of each run, computed once from its bundle; null means unknown, never zero",
    (RUN_ID, *METRIC_COLUMNS),
)
rounds = table(
    WAREHOUSE,
    "rounds",
    "One row per round of each run that was measured in several windows: the metrics of run_metrics for it alone",
    (RUN_ID, *ROUND_COLUMNS),
)
recent_requests = table(
    WAREHOUSE,
    "recent_requests",
    "The rows of request_records that are not in the archive",
    (RUN_ID, *STORED_REQUEST_COLUMNS, RUN_STARTED_AT),
)
archived_runs = table(
    WAREHOUSE,
    "archived_runs",
    "The runs whose rows of request_records lie in files of the archive",
    _ARCHIVED_COLUMNS,
)
prompt_latency_lists = table(
    WAREHOUSE,
    "prompt_latencies",
    "One row per run: the latencies of its prompts as lists, for comparisons that pair runs by prompt",
    (RUN_ID, *request_columns.PROMPT_LATENCY_COLUMNS),
)
prompt_lists = table(
    WAREHOUSE,
    "prompt_lists",
    "The prompts of the lists in prompt_latencies, stored once for all runs that sent the same prompts",
    request_columns.PROMPT_LIST_COLUMNS,
)
run_validity = table(
    WAREHOUSE,
    "run_validity",
    "Whether each run is valid. Runs ingested before there were checks have no row",
    (RUN_ID, *VERDICT_COLUMNS),
)
findings = table(
    WAREHOUSE,
    "findings",
    "What the checks found in each run: one row per check that fired",
    (RUN_ID, *FINDING_COLUMNS),
)
study_validity = table(
    WAREHOUSE,
    "study_validity",
    "The jobs whose runs were judged together, after each run was judged by itself",
    STUDY_VERDICT_COLUMNS,
)
study_findings = table(
    WAREHOUSE,
    "study_findings",
    "What checks found in the runs of a job together, such as arms that differ in more than speculation",
    STUDY_FINDING_COLUMNS,
)
capacities = table(
    WAREHOUSE,
    "capacities",
    "What searches for capacities found: one row per arm, workload and search for each repeat and for all together",
    CAPACITY_COLUMNS,
)
judgements = table(
    WAREHOUSE,
    "judgements",
    "When the verdicts on a job were computed, and what they rest on. They are stored in files beside the bundles",
    JUDGEMENT_COLUMNS,
)
judged_metrics = table(
    WAREHOUSE, "judged_metrics", "The metrics by which a judgement compares the arms", JUDGED_METRIC_COLUMNS
)
judged_arms = table(
    WAREHOUSE,
    "judged_arms",
    "One row per arm, cell, metric and reading of a judgement. Read the view comparisons",
    JUDGED_ARM_COLUMNS,
)
telemetry = table(
    WAREHOUSE,
    "telemetry",
    "One row per second of a run's measured window: the measuring client, the engine, the host and the GPUs that the "
    "engine uses; null if there is nothing to read. The view results has the means",
    (RUN_ID, *TELEMETRY_COLUMNS),
)
histograms = table(
    WAREHOUSE,
    "histograms",
    "Latencies of each run as counts on a logarithmic scale. Add the counts of several runs to pool them: percentiles "
    f"of the sum are those of all their values together, to {histogram.RELATIVE_ERROR:.1%}",
    _HISTOGRAM_COLUMNS,
)
request_groups = table(
    WAREHOUSE,
    "request_groups",
    "The numbers of each measured run by turn of its sessions and by length of context, computed once from its bundle",
    (RUN_ID, *REQUEST_GROUP_COLUMNS),
)
imported_figures = table(
    WAREHOUSE,
    "imported_figures",
    "The figures of imported runs in their tool's own names and units, including those that became no column",
    (RUN_ID, *IMPORTED_FIGURE_COLUMNS),
)
published_sources = table(
    WAREHOUSE, "published_sources", "The publications whose figures ship with Drafthouse", SOURCE_COLUMNS
)
published_results = table(WAREHOUSE, "published_results", "Published figures, each as it was printed", FIGURE_COLUMNS)
published_runs = table(
    WAREHOUSE,
    "published_runs",
    "Published figures as runs: the absolute figures of one setting. They are in results too",
    PUBLISHED_COLUMNS,
)
published_doubts = table(WAREHOUSE, "published_doubts", "Published figures that contradict each other", DOUBT_COLUMNS)
rejected_bundles = table(
    WAREHOUSE,
    "rejected_bundles",
    "Bundles that could not be ingested, and jobs whose runs could not be judged together; tried again each minute",
    _REJECTED_COLUMNS,
)
