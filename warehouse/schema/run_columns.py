"""The columns of `runs`: what was run, under what circumstances, and how it went. Each reads from a RunRecord.

Columns of which a file of another tool may say nothing can be null; a measured run has a value in each of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from lab.metrics.records import RunRecord
from warehouse.schema.column import Column, column


def _json(read: Callable[[RunRecord], Any]) -> Callable[[RunRecord], str | None]:
    """What `read` gives as JSON text: pydantic models and plain values alike."""

    def text(run: RunRecord) -> str | None:
        value = read(run)
        if value is None:
            return None
        return value.model_dump_json() if isinstance(value, BaseModel) else json.dumps(value, ensure_ascii=False)

    return text


def _started_at(run: RunRecord) -> datetime:
    """Raises ValueError for a time that is none, or without its time zone."""
    moment = datetime.fromisoformat(run.started_at)
    if moment.tzinfo is None:
        raise ValueError(f"started_at {run.started_at!r} has no time zone")
    return moment


def _nothing(_: RunRecord) -> None:
    return None


_WHAT = (
    column("run_id", "text", "names the run: one execution of a cell"),
    column("cell_key", "text", "the cell (arm, workload, load, repeat) within its job; attempts share it"),
    column(
        "cell_id",
        "text?",
        "SHA-256 of what was measured: runs with the same one measured the same, in whatever study; null in old runs",
        "identity.cell_id",
    ),
    column("job_id", "text", "the job that ran it"),
    column("study_id", "text", "SHA-256 of the study's content"),
    column("study_name", "text", "the study's name"),
    column("target", "text?", "the model that is served"),
    column("arm", "text", "name of the arm: one way to serve the target", "arm.name"),
    column("is_baseline", "bool?", "whether the other arms of the job are compared with this one"),
    column(
        "method",
        "text?",
        "how tokens are drafted; none without speculation",
        lambda run: run.arm.speculation.method if run.arm.speculation else "none",
    ),
    column("draft_model", "text?", "the draft model or head; null where there is none", "arm.speculation.model"),
    column(
        "num_speculative_tokens",
        "int?",
        "tokens drafted a round; null without speculation",
        "arm.speculation.num_speculative_tokens",
    ),
    column("arm_json", "text?", "the arm with its flags, as JSON", _json(lambda run: run.arm)),
    column("arm_id", "text?", "SHA-256 of the arm without its name", "identity.arm_id"),
)
_WORKLOAD = (
    column("workload", "text?", "short name of the workload, unique within a study; null in old runs", "workload.name"),
    column("dataset", "text?", "where the prompts come from", "workload.dataset"),
    column(
        "category",
        "text?",
        "the one category of prompts; all where it is not one",
        lambda run: run.workload.category or "all",
    ),
    column(
        "requested_output_tokens", "int?", "tokens that each request may generate at most", "workload.output_tokens"
    ),
    column("ignore_eos", "bool?", "whether the model has to write on past its end", "workload.ignore_eos"),
    column("input_tokens", "int?", "length of the prompts, where they are made to a length", "workload.input_tokens"),
    column(
        "own_output_lengths",
        "bool?",
        "whether each prompt asked for the output length that its dataset records",
        "workload.own_output_lengths",
    ),
    column("workload_json", "text?", "the workload, as JSON", _json(lambda run: run.workload)),
    column("workload_id", "text?", "SHA-256 of the workload, its dataset and its seed", "identity.workload_id"),
    column("dataset_digest", "text?", "SHA-256 of the dataset's file, where there is one", "identity.dataset_digest"),
    column("prompts_seed", "bigint?", "the study's seed: which prompts, in which order, and their arrivals"),
    column("pattern", "text?", "short name of the access pattern", "load.name"),
    column("concurrency", "int?", "most requests in flight at once", "load.max_concurrency"),
    column("num_prompts", "int?", "requests asked for", "load.num_prompts"),
    column("request_rate_rps", "double?", "arrivals per second; null in a closed loop", "load.request_rate_rps"),
    column("burstiness", "double?", "shape of the gamma arrivals; 1 is Poisson", "load.burstiness"),
    column("arrivals", "text?", "gamma, constant, ramp or trace; of no meaning in a closed loop", "load.arrivals"),
    column("load_json", "text?", "the access pattern, as JSON", _json(lambda run: run.load)),
    column("load_id", "text?", "SHA-256 of the access pattern without its label", "identity.load_id"),
    column("endpoint", "text?", "completions or chat"),
    column("temperature", "double?", "sampling temperature that was sent; 0 is greedy", "sampling.temperature"),
    column("top_p", "double?", "top_p that was sent", "sampling.top_p"),
    column("seed", "bigint?", "sampling seed that was sent", "sampling.seed"),
    column("slo_json", "text?", "bounds that a good request keeps, as JSON", _json(lambda run: run.slo)),
)
_HOW = (
    column("repeat", "int?", "number of the repeat, from 0"),
    column("launch_index", "int?", "place of its engine start in the job, from 0"),
    column("attempt", "int?", "how often this cell had been tried before"),
    column("status", "text", "completed or failed"),
    column("error", "text?", "why it failed"),
    column("started_at", "moment?", "when its measured window began", _started_at),
    column("window_s", "double?", "length of the measured window on the client's clock, seconds", "duration_s"),
    column("warmup_requests", "int?", "requests answered before the window, in no number"),
    column("warmup_s", "double?", "how long the warm-up took, seconds"),
    column("idle_before_s", "double?", "seconds since the previous run on the same engine start ended"),
    column(
        "counters_before_json", "text?", "the server's counters before, as JSON", _json(lambda r: r.counters_before)
    ),
    column("counters_after_json", "text?", "the server's counters after, as JSON", _json(lambda r: r.counters_after)),
    column("loop_lag_p99_ms", "double?", "p99 lag of the client's event loop", "client.loop_lag_p99_ms"),
    column("loop_lag_max_ms", "double?", "worst lag of the client's event loop", "client.loop_lag_max_ms"),
    column(
        "late_send_max_ms",
        "double?",
        "most that a request was sent too late by, those that waited for a free slot left out",
        "client.late_send_max_ms",
    ),
    column("client_cpu_s", "double?", "processor time of the measuring client", "client.cpu_s"),
    column("log_begin_bytes", "bigint?", "length of the engine's log when the measured window began"),
    column("log_end_bytes", "bigint?", "length of the engine's log when the measured window ended"),
)
_CIRCUMSTANCES = (
    column("hardware", "text?", "the accelerator, or the processor where there is none", "circumstances.hardware"),
    column("host", "text?", "name of the machine", "circumstances.host"),
    column("cpu_count", "int?", "processor cores of the machine", "circumstances.cpu_count"),
    column("memory_bytes", "bigint?", "memory of the machine", "circumstances.memory_bytes"),
    column("os", "text?", "operating system", "circumstances.os"),
    column("python_version", "text?", "of the measuring client", "circumstances.python_version"),
    column("drafthouse_revision", "text?", "the Drafthouse that measured", "circumstances.drafthouse_revision"),
    column("engine", "text?", "the engine that served", "circumstances.engine"),
    column("engine_version", "text?", "as the engine itself says", "circumstances.engine_version"),
    column("command_json", "text?", "how it was started, as JSON", _json(lambda run: run.circumstances.command)),
    column(
        "environment_json",
        "text?",
        "environment variables set for it, as JSON",
        _json(lambda run: run.circumstances.environment),
    ),
    column(
        "effective_config_json",
        "text?",
        "its settings as its log tells them, as JSON",
        _json(lambda run: run.circumstances.effective_config),
    ),
    column("target_path", "text?", "where the target was loaded from", "circumstances.target_path"),
    column("target_digest", "text?", "SHA-256 over its weights, where it is a folder", "circumstances.target_digest"),
    column(
        "target_revision",
        "text?",
        "the hub's commit, where it is a hub name and the cache tells",
        "circumstances.target_revision",
    ),
    column("draft_path", "text?", "where the draft model was loaded from", "circumstances.draft_path"),
    column("draft_digest", "text?", "SHA-256 over the draft's weights, if a folder", "circumstances.draft_digest"),
    column("draft_revision", "text?", "the hub's commit of the draft model", "circumstances.draft_revision"),
    column("driver_version", "text?", "of the NVIDIA driver", "circumstances.driver_version"),
    column(
        "gpus",
        "texts?",
        "the GPUs the engine used, each with its UUID; null where none is known",
        lambda run: run.circumstances.gpus or None,
    ),
    column("gpus_found_by", "text?", "how it is known that these are the engine's GPUs", "circumstances.gpus_found_by"),
    column(
        "settings_json",
        "text?",
        "the worker's settings, without addresses and secrets, as JSON",
        _json(lambda run: run.circumstances.settings or None),
    ),
    column("engine_start_s", "double?", "from start to the first answered request", "circumstances.start_s"),
    column("format_version", "int", "version of the bundle's format"),
)

#: Where a run comes from. A measured one has none of the others.
ORIGIN_COLUMNS = (
    column(
        "origin",
        "text",
        "measured: by Drafthouse; imported: from a result file of another tool; published: printed by somebody",
        lambda _: "measured",
    ),
    column("tool", "text?", "the tool that wrote the imported file, as docs/importing.md names it", _nothing),
    column("tool_version", "text?", "its version, where the file tells", _nothing),
    column("source_sha256", "text?", "SHA-256 of the imported file, which its bundle keeps", _nothing),
    column("labels_json", "text?", "labels that the file or the user gave to an imported run, as JSON", _nothing),
)

RUN_COLUMNS: tuple[Column, ...] = (*_WHAT, *_WORKLOAD, *_HOW, *_CIRCUMSTANCES, *ORIGIN_COLUMNS)
