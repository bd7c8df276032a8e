"""The columns of stored verdicts: of a judgement, of each metric in it, and of each arm by that metric."""

from __future__ import annotations

from warehouse.schema.column import Column, column

_JUDGEMENT_ID = column("judgement_id", "text", "the judgement: the verdicts on a job that were computed together")
_METRIC = column("metric", "text", "the metric by which arms are compared: a column of results, or a cost")
JUDGEMENT_COLUMNS: tuple[Column, ...] = (
    _JUDGEMENT_ID,
    column("job_id", "text", "the job"),
    column("study", "text", "the study's name"),
    column("cause", "text", "ended: the job had ended; asked: somebody judged it again later"),
    column("tries", "int?", "how often the job had been retried when it ended; null if it was judged again later"),
    column("as_of", "moment", "the verdicts are those of this moment: when the job ended, or when it was judged again"),
    column("judged_at", "moment", "when they were computed"),
    column("analysis_version", "int", "version of the analysis that computed them"),
    column("run_ids", "texts", "the runs that they rest on, of the baseline and of the other arms"),
    column("arms_json", "text", "the arms in each cell with their runs, for Drafthouse itself"),
)
JUDGED_METRIC_COLUMNS: tuple[Column, ...] = (
    _JUDGEMENT_ID,
    _METRIC,
    column("unit", "text", "unit of the metric"),
    column("baseline", "text", "the arm that the others are compared with"),
    column("history_jobs", "texts", "jobs measured earlier whose scatter informed the intervals"),
    column("answer_json", "text", "comparisons with all that verdicts follow from, for Drafthouse itself"),
)
JUDGED_ARM_COLUMNS: tuple[Column, ...] = (
    _JUDGEMENT_ID,
    _METRIC,
    column("scope", "text", "cell: the arm in one cell; overall: its geometric mean over all of its cells"),
    column("arm", "text", "the arm"),
    column("workload", "text?", "the cell's workload; null of an overall row"),
    column("load", "text?", "the cell's load, as pattern in results; null of an overall row"),
    column("concurrency", "int?", "most requests in flight at the same time; null of an overall row"),
    column(
        "reading",
        "text",
        "usual: at most 5 % of the table's calls are false; strict: none is, with 95 % confidence. An overall verdict "
        "is corrected for the arms",
    ),
    column("ratio", "double?", "arm / baseline; null if it is unknown"),
    column("low", "double?", "lower bound of its interval, corrected as the reading says; null if it is unknown"),
    column("high", "double?", "upper bound of its interval; null if it is unknown"),
    column("verdict", "text", "faster, slower, no difference, inconclusive, or control"),
    column("basis", "text", "what the interval was computed from, in words"),
)
