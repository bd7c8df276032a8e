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
    column("arm", "text", "name of the arm, one way to serve the target", "arm.name"),
    "is_baseline",
    column(
        "method",
        "text?",
        "the method of speculation; the text none without speculation",
        lambda run: run.arm.speculation.method if run.arm.speculation else "none",
    ),
    column("draft_model", "text?", "the draft model or head; null if the method uses none", "arm.speculation.model"),
    column(
        "num_speculative_tokens",
        "int?",
        "tokens drafted per round; null without speculation",
        "arm.speculation.num_speculative_tokens",
    ),
    column("arm_json", "text?", "the arm with its flags, as JSON", as_json(lambda run: run.arm)),
    "identity.arm_id",
    column("workload", "text?", "short name of the workload, unique within a study", "workload.name"),
    column("dataset", "text?", "the dataset of the prompts", "workload.dataset"),
    column(
        "category",
        "text?",
        "the category that the prompts were restricted to; the text all if they were not",
        lambda run: run.workload.category or "all",
    ),
    column("requested_output_tokens", "int?", "most tokens that each request may generate", "workload.output_tokens"),
    column("ignore_eos", "bool?", "whether generation continues past the end-of-sequence token", "workload.ignore_eos"),
    column("score", "text?", "how its answers are scored; null if they are not", "workload.score"),
    column(
        "input_tokens",
        "int?",
        "length of the prompts in tokens, if they were made to a given length",
        "workload.input_tokens",
    ),
    column(
        "own_output_lengths",
        "bool?",
        "whether each request asked for the output length recorded in the dataset",
        "workload.own_output_lengths",
    ),
    column(
        "session_answers",
        "text?",
        "what later turns of a session follow: the model's own answers (own) or the recorded ones; null if the prompts "
        "were not replayed as sessions",
        "workload.sessions.answers",
    ),
    column("workload_json", "text?", "the workload, as JSON", as_json(lambda run: run.workload)),
    "identity.workload_id",
    "identity.dataset_digest",
    "prompts_seed",
    column("pattern", "text?", "short name of the load (access pattern)", "load.name"),
    column(
        "concurrency",
        "int?",
        "most requests in flight at the same time; with sessions, most sessions",
        "load.max_concurrency",
    ),
    column(
        "num_prompts",
        "int?",
        "number of requests, or of sessions, in the measured window, as the load specifies",
        "load.num_prompts",
    ),
    column("request_rate_rps", "double?", "arrivals per second; null in a closed loop", "load.request_rate_rps"),
    column(
        "burstiness", "double?", "shape parameter of the gamma-distributed arrivals; 1 is Poisson", "load.burstiness"
    ),
    column("arrivals", "text?", "gamma, constant, ramp or trace; meaningless in a closed loop", "load.arrivals"),
    column("load_json", "text?", "the load, as JSON", as_json(lambda run: run.load)),
    "identity.load_id",
    column(
        "search",
        "text?",
        "the load that searches for a capacity, of which this run is a trial; null for ordinary runs",
        "trial.search.name",
    ),
    column("trial_number", "int?", "number of the trial within its search and repeat, from 0", "trial.number"),
    "endpoint",
    column("temperature", "double?", "sampling temperature of the requests; 0 is greedy", "sampling.temperature"),
    column("top_p", "double?", "top_p of the requests", "sampling.top_p"),
    column("seed", "bigint?", "sampling seed of the requests", "sampling.seed"),
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
        "engines of other arms that were up without traffic during the window",
        lambda run: len(run.idle_engines),
    ),
    column(
        "idle_engine_cpu_percent",
        "double?",
        "share of one processor that the busiest of them took; null if there was none or it is unknown",
        lambda run: _busiest(engine.cpu_percent for engine in run.idle_engines),
    ),
    column(
        "idle_engine_gpu_percent",
        "double?",
        "share of the multiprocessors of a GPU that the busiest of them took; null if there was none or it is unknown",
        lambda run: _busiest(engine.gpu_percent for engine in run.idle_engines),
    ),
    column(
        "beside_json",
        "text?",
        "what other processes of Drafthouse did on the machine during the window, in seconds, as JSON; null if unknown",
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
        "the GPUs the engine used, each with its UUID; null if none is known",
        lambda run: run.circumstances.gpus or None,
    ),
    "circumstances.gpus_found_by",
    column(
        "settings_json",
        "text?",
        "the worker's settings, without addresses and secrets, as JSON",
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
        "measured by Drafthouse, imported from a result file of another tool, or published by its authors",
        lambda _: "measured",
    ),
    column("tool", "text?", "the tool that wrote the imported file, by its name in docs/importing.md", _never),
    column("tool_version", "text?", "version of that tool, if the file records it", _never),
    column("source_sha256", "text?", "SHA-256 of the imported file, which is stored in the bundle", _never),
    column("labels_json", "text?", "labels of an imported run, from the file or the user, as JSON", _never),
)


RUN_COLUMNS: tuple[Column, ...] = (
    *(entry if isinstance(entry, Column) else _field(entry) for entry in _IN_ORDER),
    *ORIGIN_COLUMNS,
    *(_field(path) for path in _FIELDS if path not in _IN_ORDER),
)
