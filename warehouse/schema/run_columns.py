"""The columns of `runs`: what was run, in what environment, and how it went. Each is read from a RunRecord.

The columns of the record's own fields are declared with the fields, in `lab.metrics.records`, and only named here, for
their order; a field that is not named is a column at the end. All but a few columns can be null, because files of other
tools may lack what every measured run has.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from lab.metrics.records import Circumstances, ClientHealth, Identity, RunRecord
from warehouse.schema.column import Column, as_json, column, recorded

#: The columns of which every run has a value, whatever its origin.
_ALWAYS_KNOWN = ("run_id", "cell_key", "job_id", "study_id", "study_name", "status", "format_version")


def _busiest(percents: Iterable[float | None]) -> float | None:
    """Return the highest share, or None if there is none or one of them is unknown."""
    every = list(percents)
    reported = [percent for percent in every if percent is not None]
    return max(reported) if reported and len(reported) == len(every) else None


def _started_at(run: RunRecord) -> datetime:
    """Parse the start. Raises ValueError for an invalid time or one without a time zone."""
    moment = datetime.fromisoformat(run.started_at)
    if moment.tzinfo is None:
        raise ValueError(f"started_at {run.started_at!r} has no time zone")
    return moment


def _never(_: RunRecord) -> None:
    return None


def _field(path: str) -> Column:
    field = _FIELDS[path]
    return field if field.name in _ALWAYS_KNOWN else field.or_null()


_FIELDS = {
    **recorded(RunRecord),
    **recorded(Identity, "identity."),
    **recorded(ClientHealth, "client."),
    **recorded(Circumstances, "circumstances."),
}
#: In the order of the columns: fields of the record by their paths, and other columns.
_IN_ORDER: tuple[str | Column, ...] = (
    "run_id",
    "cell_key",
    "identity.cell_id",
    "job_id",
    "study_id",
    "study_name",
    "target",
    column("arm", "text", "name of the arm", "arm.name"),
    "is_baseline",
    column(
        "method",
        "text?",
        "method of speculation; none without",
        lambda run: run.arm.speculation.method if run.arm.speculation else "none",
    ),
    column("draft_model", "text?", "draft model or head", "arm.speculation.model"),
    column(
        "num_speculative_tokens",
        "int?",
        "tokens drafted per round; null without speculation",
        "arm.speculation.num_speculative_tokens",
    ),
    column("arm_json", "text?", "the arm with its flags", as_json(lambda run: run.arm)),
    "identity.arm_id",
    column("workload", "text?", "short name, unique within a study", "workload.name"),
    column("dataset", "text?", "of the prompts", "workload.dataset"),
    column(
        "category",
        "text?",
        "category of the prompts, or all",
        lambda run: run.workload.category or "all",
    ),
    column("requested_output_tokens", "int?", "most tokens the server may generate", "workload.output_tokens"),
    column("ignore_eos", "bool?", "whether generation continues past the end token", "workload.ignore_eos"),
    column("score", "text?", "how answers are scored", "workload.score"),
    column(
        "input_tokens",
        "int?",
        "length of the prompts, if made to a length",
        "workload.input_tokens",
    ),
    column(
        "own_output_lengths",
        "bool?",
        "whether answers have the dataset's lengths",
        "workload.own_output_lengths",
    ),
    column(
        "session_answers",
        "text?",
        "what later turns follow: the model's own answers, or recorded ones",
        "workload.sessions.answers",
    ),
    column("workload_json", "text?", "the workload", as_json(lambda run: run.workload)),
    "identity.workload_id",
    "identity.dataset_digest",
    "prompts_seed",
    column("pattern", "text?", "short name of the load", "load.name"),
    column(
        "concurrency",
        "int?",
        "most requests, or sessions, in flight at once",
        "load.max_concurrency",
    ),
    column(
        "num_prompts",
        "int?",
        "requests, or sessions, that the load specifies",
        "load.num_prompts",
    ),
    column("request_rate_rps", "double?", "arrivals per second; null in a closed loop", "load.request_rate_rps"),
    column("burstiness", "double?", "shape of the gamma-distributed arrivals; 1 is Poisson", "load.burstiness"),
    column("arrivals", "text?", "gamma, constant, ramp or trace", "load.arrivals"),
    column("load_json", "text?", "the load", as_json(lambda run: run.load)),
    "identity.load_id",
    column(
        "search",
        "text?",
        "the capacity search of which it is a trial",
        "trial.search.name",
    ),
    column("trial_number", "int?", "of the trial in its search and repeat, from 0", "trial.number"),
    "endpoint",
    column("temperature", "double?", "of the sampling; temperature 0 is greedy", "sampling.temperature"),
    column("top_p", "double?", "of the sampling; temperature 0 is greedy", "sampling.top_p"),
    column("seed", "bigint?", "of the sampling; temperature 0 is greedy", "sampling.seed"),
    "slo",
    "repeat",
    "order",
    "until_decided",
    "launch_index",
    "taken_over_from",
    "attempt",
    "lease",
    "status",
    "error",
    "ended_early",
    column("started_at", "moment?", "when the measured window began", _started_at),
    "duration_s",
    "windows",
    "warmup_requests",
    "warmup_s",
    "idle_before_s",
    "counters_before",
    "counters_after",
    "client.loop_lag_p99_ms",
    "client.loop_lag_max_ms",
    "client.late_send_max_ms",
    "client.cpu_s",
    column(
        "idle_engines",
        "int?",
        "other arms' engines that were up",
        lambda run: len(run.idle_engines),
    ),
    column(
        "idle_engine_cpu_percent",
        "double?",
        "share of a processor or GPU that the busiest of them took",
        lambda run: _busiest(engine.cpu_percent for engine in run.idle_engines),
    ),
    column(
        "idle_engine_gpu_percent",
        "double?",
        "share of a processor or GPU that the busiest of them took",
        lambda run: _busiest(engine.gpu_percent for engine in run.idle_engines),
    ),
    column(
        "beside_json",
        "text?",
        "what other Drafthouse processes did in the window, in seconds",
        as_json(lambda run: None if run.beside is None else [work.model_dump() for work in run.beside]),
    ),
    "log_begin_bytes",
    "log_end_bytes",
    "circumstances.hardware",
    "circumstances.host",
    "circumstances.slot",
    "circumstances.clock_behind_s",
    "circumstances.cpu_count",
    "circumstances.memory_bytes",
    "circumstances.os",
    "circumstances.python_version",
    "circumstances.drafthouse_revision",
    "circumstances.engine",
    "circumstances.engine_version",
    "circumstances.command",
    "circumstances.environment",
    "circumstances.effective_config",
    "circumstances.target_path",
    "circumstances.target_digest",
    "circumstances.target_revision",
    "circumstances.draft_path",
    "circumstances.draft_digest",
    "circumstances.draft_revision",
    "circumstances.driver_version",
    column(
        "gpus",
        "texts?",
        "the engine's GPUs with their UUIDs",
        lambda run: run.circumstances.gpus or None,
    ),
    "circumstances.gpus_found_by",
    column(
        "settings_json",
        "text?",
        "the worker's settings, without addresses and secrets",
        as_json(lambda run: run.circumstances.settings or None),
    ),
    "circumstances.start_s",
    "format_version",
)

#: Where a run comes from. For measured runs only `origin` has a value.
ORIGIN_COLUMNS = (
    column(
        "origin",
        "text",
        "measured, imported (from a file) or published (by its authors)",
        lambda _: "measured",
    ),
    column("tool", "text?", "the file's tool, as in docs/importing.md", _never),
    column("tool_version", "text?", "its version, if the file records it", _never),
    column("source_sha256", "text?", "SHA-256 of the imported file", _never),
    column("labels_json", "text?", "labels of an imported run", _never),
)


RUN_COLUMNS: tuple[Column, ...] = (
    *(entry if isinstance(entry, Column) else _field(entry) for entry in _IN_ORDER),
    *ORIGIN_COLUMNS,
    *(_field(path) for path in _FIELDS if path not in _IN_ORDER),
)
