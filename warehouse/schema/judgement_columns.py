"""The columns of stored verdicts: of a judgement, of each metric in it, and of each arm by that metric."""

from __future__ import annotations

from warehouse.schema.column import Column, column

_JUDGEMENT_ID = column("judgement_id", "text", "verdicts on a job that were computed together")
_METRIC = column("metric", "text", "a column of results, or a cost")
JUDGEMENT_COLUMNS: tuple[Column, ...] = (
    _JUDGEMENT_ID,
    column("job_id", "text", "the job"),
    column("study", "text", "the study's name"),
    column("cause", "text", "ended: the job ended; asked: somebody judged it again"),
    column("tries", "int?", "retries of the job when it ended; null for a later judgement"),
    column("as_of", "moment", "when the job ended, or was judged again"),
    column("judged_at", "moment", "when the verdicts were computed"),
    column("analysis_version", "int", "version of the analysis"),
    column("run_ids", "texts", "the runs compared"),
    column("arms_json", "text", "for Drafthouse itself"),
)
JUDGED_METRIC_COLUMNS: tuple[Column, ...] = (
    _JUDGEMENT_ID,
    _METRIC,
    column("unit", "text", "unit of the metric"),
    column("baseline", "text", "the study's baseline"),
    column("history_jobs", "texts", "earlier jobs whose scatter informed the intervals"),
    column("answer_json", "text", "for Drafthouse itself"),
)
JUDGED_ARM_COLUMNS: tuple[Column, ...] = (
    _JUDGEMENT_ID,
    _METRIC,
    column("scope", "text", "cell, or overall: the geometric mean over all cells"),
    column("arm", "text", "the arm"),
    column("workload", "text?", "of the cell; null for an overall row"),
    column("load", "text?", "of the cell; null for an overall row"),
    column("concurrency", "int?", "of the cell; null for an overall row"),
    column(
        "reading",
        "text",
        "usual: at most 5 % of the table's calls are false; strict: none, with 95 % confidence",
    ),
    column("ratio", "double?", "arm / baseline"),
    column("low", "double?", "bound of its interval, corrected by the reading"),
    column("high", "double?", "bound of its interval, corrected by the reading"),
    column("verdict", "text", "faster, slower, no difference, inconclusive, or control"),
    column("basis", "text", "what the interval rests on, in words"),
)
