"""The columns of `runs`: what was run, in what environment, and how it went. Each is read from a RunRecord.

Columns that files of other tools may lack can be null, although every measured run has a value for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from lab.metrics.records import RunRecord
from warehouse.schema.column import Column, column


def _json(read: Callable[[RunRecord], Any]) -> Callable[[RunRecord], str | None]:
    """Return a reader that turns what `read` returns, a pydantic model or a plain value, into JSON text."""

    def text(run: RunRecord) -> str | None:
        value = read(run)
        if value is None:
            return None
        return value.model_dump_json() if isinstance(value, BaseModel) else json.dumps(value, ensure_ascii=False)

    return text


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


_WHAT = (
    column("run_id", "text", "identifies the run: one execution of a cell"),
    column(
        "cell_key",
        "text",
        "identifies the cell (arm, workload, load, repeat) within its job; all attempts at a cell share it",
    ),
    column(
        "cell_id",
        "text?",
        "SHA-256 of what was measured: equal in runs of any study that measured the same",
        "identity.cell_id",
    ),
    column("job_id", "text", "the job that ran it"),
    column("study_id", "text", "SHA-256 of the study's content"),
    column("study_name", "text", "the study's name"),
    column("target", "text?", "the model that was served"),
    column("arm", "text", "name of the arm, one way to serve the target", "arm.name"),
    column("is_baseline", "bool?", "whether the other arms of the job are compared with this one"),
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
    column("arm_json", "text?", "the arm with its flags, as JSON", _json(lambda run: run.arm)),
    column("arm_id", "text?", "SHA-256 of the arm without its name", "identity.arm_id"),
)
_WORKLOAD = (
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
    column("workload_json", "text?", "the workload, as JSON", _json(lambda run: run.workload)),
    column("workload_id", "text?", "SHA-256 of the workload, its dataset and its seed", "identity.workload_id"),
    column(
        "dataset_digest",
        "text?",
        "SHA-256 of the dataset's file; null if the dataset is not a file",
        "identity.dataset_digest",
    ),
    column(
        "prompts_seed", "bigint?", "the study's seed, which determines the prompts, their order and their arrival times"
    ),
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
    column("load_json", "text?", "the load, as JSON", _json(lambda run: run.load)),
    column("load_id", "text?", "SHA-256 of the load without its name", "identity.load_id"),
    column(
        "search",
        "text?",
        "the load that searches for a capacity, of which this run is a trial; null for ordinary runs",
        "trial.search.name",
    ),
    column("trial_number", "int?", "number of the trial within its search and repeat, from 0", "trial.number"),
    column("endpoint", "text?", "completions or chat"),
    column("temperature", "double?", "sampling temperature of the requests; 0 is greedy", "sampling.temperature"),
    column("top_p", "double?", "top_p of the requests", "sampling.top_p"),
    column("seed", "bigint?", "sampling seed of the requests", "sampling.seed"),
    column("slo_json", "text?", "the SLO: bounds that a good request meets, as JSON", _json(lambda run: run.slo)),
)
_HOW = (
    column("repeat", "int?", "number of the repeat, from 0"),
    column(
        "arm_order",
        "text?",
        "interleaved (A B B A), fewest_launches, or side_by_side",
        "order",
    ),
    column(
        "until_decided",
        "bool?",
        "whether the study looked at its verdicts after every repeat, to stop when they are decided",
    ),
    column("launch_index", "int?", "number of the engine start within the job, from 0"),
    column("attempt", "int?", "number of earlier attempts at this cell"),
    column("status", "text", "completed or failed"),
    column("error", "text?", "why it failed"),
    column("ended_early", "text?", "why a trial was ended before its last answer, which is no failure"),
    column("started_at", "moment?", "when the measured window began", _started_at),
    column("window_s", "double?", "length of the measured window on the client's clock, in seconds", "duration_s"),
    column("warmup_requests", "int?", "warm-up requests answered before the window; excluded from every metric"),
    column("warmup_s", "double?", "duration of the warm-up, in seconds"),
    column(
        "idle_before_s",
        "double?",
        "seconds between the end of the previous run of the same engine start and this warm-up",
    ),
    column(
        "counters_before_json",
        "text?",
        "the server's counters before the window, as JSON",
        _json(lambda r: r.counters_before),
    ),
    column(
        "counters_after_json",
        "text?",
        "the server's counters after the window, as JSON",
        _json(lambda r: r.counters_after),
    ),
    column(
        "loop_lag_p99_ms", "double?", "99th percentile of the lag of the client's event loop", "client.loop_lag_p99_ms"
    ),
    column("loop_lag_max_ms", "double?", "worst lag of the client's event loop", "client.loop_lag_max_ms"),
    column(
        "late_send_max_ms",
        "double?",
        "largest delay between intended and actual sending, without requests that waited for a free slot",
        "client.late_send_max_ms",
    ),
    column("client_cpu_s", "double?", "processor time used by the measuring client, in seconds", "client.cpu_s"),
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
        _json(lambda run: None if run.beside is None else [work.model_dump() for work in run.beside]),
    ),
    column("log_begin_bytes", "bigint?", "where in the bundle's engine.log the measured window began"),
    column("log_end_bytes", "bigint?", "where in the bundle's engine.log the measured window ended"),
)
_CIRCUMSTANCES = (
    column("hardware", "text?", "the accelerator, or the processor if there is none", "circumstances.hardware"),
    column("host", "text?", "name of the machine", "circumstances.host"),
    column(
        "slot",
        "int?",
        "the slot of that machine, from 1; null if one worker had the whole machine",
        "circumstances.slot",
    ),
    column("cpu_count", "int?", "number of processor cores of the machine", "circumstances.cpu_count"),
    column("memory_bytes", "bigint?", "memory of the machine", "circumstances.memory_bytes"),
    column("os", "text?", "operating system", "circumstances.os"),
    column("python_version", "text?", "Python version of the measuring client", "circumstances.python_version"),
    column(
        "drafthouse_revision",
        "text?",
        "revision of the Drafthouse that measured the run",
        "circumstances.drafthouse_revision",
    ),
    column("engine", "text?", "the engine that served", "circumstances.engine"),
    column("engine_version", "text?", "version that the engine itself reports", "circumstances.engine_version"),
    column(
        "command_json",
        "text?",
        "command that started the engine, as JSON",
        _json(lambda run: run.circumstances.command),
    ),
    column(
        "environment_json",
        "text?",
        "environment variables set for the engine, as JSON",
        _json(lambda run: run.circumstances.environment),
    ),
    column(
        "effective_config_json",
        "text?",
        "the engine's effective settings according to its log, as JSON",
        _json(lambda run: run.circumstances.effective_config),
    ),
    column("target_path", "text?", "where the target was loaded from", "circumstances.target_path"),
    column(
        "target_digest", "text?", "SHA-256 of the target's weights, if it is a folder", "circumstances.target_digest"
    ),
    column(
        "target_revision",
        "text?",
        "the hub's commit of the target, if it is a hub name and the cache records the commit",
        "circumstances.target_revision",
    ),
    column("draft_path", "text?", "where the draft model was loaded from", "circumstances.draft_path"),
    column(
        "draft_digest", "text?", "SHA-256 of the draft model's weights, if it is a folder", "circumstances.draft_digest"
    ),
    column(
        "draft_revision",
        "text?",
        "the hub's commit of the draft model, if it is a hub name and the cache records the commit",
        "circumstances.draft_revision",
    ),
    column("driver_version", "text?", "version of the NVIDIA driver", "circumstances.driver_version"),
    column(
        "gpus",
        "texts?",
        "the GPUs the engine used, each with its UUID; null if none is known",
        lambda run: run.circumstances.gpus or None,
    ),
    column("gpus_found_by", "text?", "how the engine's GPUs were determined", "circumstances.gpus_found_by"),
    column(
        "settings_json",
        "text?",
        "the worker's settings, without addresses and secrets, as JSON",
        _json(lambda run: run.circumstances.settings or None),
    ),
    column(
        "engine_start_s",
        "double?",
        "seconds from the start of the engine to the first answered request; its share if engines started together",
        "circumstances.start_s",
    ),
    column("format_version", "int", "version of the bundle format"),
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

RUN_COLUMNS: tuple[Column, ...] = (*_WHAT, *_WORKLOAD, *_HOW, *_CIRCUMSTANCES, *ORIGIN_COLUMNS)
