"""What one run leaves behind. Times within a run are seconds since its measured window began (monotonic clock)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field, JsonValue

from lab.study import Arm, Frozen, Load, Sampling, Slo, Workload

#: The version of the bundle format written by this Drafthouse. Raise it when a reader must change.
#: 2: telemetry has the engine, the host and its GPUs in it; a run knows its identity.
#: 3: a run knows where its window lies in the engine's log, a sample who else is on the GPUs, a request how long its
#: prompt was when it left.
#: 4: a request has the tokens of its output, where it was greedy and the engine tells them.
BUNDLE_FORMAT_VERSION = 4
READABLE_FORMAT_VERSIONS = (1, 2, 3, 4)


@dataclass(frozen=True)
class RequestRecord:
    """One request of the measured window. None means unknown or never happened; it is never a zero in disguise."""

    index: int  # place in the order of sending, from 0
    prompt_id: str  # the same prompt has the same id in every arm
    category: str | None
    prompt: str
    requested_output_tokens: int
    intended_send_s: float  # when the load asked for it
    sent_s: float | None  # when it left the client
    first_token_s: float | None
    end_s: float | None  # last byte, or the moment of failure
    chunk_s: tuple[float, ...]  # arrival of each streamed chunk that carried output
    chunk_tokens: tuple[int, ...] | None  # tokens in each of those chunks, where the server counts them
    prompt_tokens: int | None  # from the server's usage
    completion_tokens: int | None  # from the server's usage
    finish_reason: str | None
    error: str | None
    output_text: str
    spec_drafts: int | None = None  # verification rounds of this request
    spec_draft_tokens: int | None = None
    spec_accepted_tokens: int | None = None
    sent_prompt_tokens: int | None = None  # as sent, counted here: without what a server puts around a prompt
    output_token_ids: tuple[int, ...] | None = None  # of the tokenizer, where the server was asked and tells them


@dataclass(frozen=True)
class TelemetrySample:
    """One second of the measured window: the client's own figures, then what the probes saw at its end.

    None where a probe has nothing to read: no GPU, an engine that does not tell. Figures of GPUs are those of all GPUs
    that the engine uses, together.
    """

    t_s: float
    loop_lag_ms: float  # worst lag of the client's event loop in this second
    requests_in_flight: int
    requests_done: int
    chunks_received: int
    engine_running: int | None = None  # requests the engine works on, as it says itself
    engine_waiting: int | None = None  # requests in the engine's own queue
    kv_cache_usage: float | None = None  # share of the engine's KV cache in use, 0 to 1
    host_cpu_percent: float | None = None  # of all processors of the client's host, since the sample before
    host_memory_used_bytes: int | None = None
    gpu_utilisation_percent: float | None = None  # mean
    gpu_memory_used_bytes: int | None = None  # sum
    gpu_power_w: float | None = None  # sum
    gpu_sm_clock_mhz: float | None = None  # of the slowest
    gpu_memory_clock_mhz: float | None = None  # of the slowest
    gpu_temperature_c: float | None = None  # of the hottest
    gpu_throttle_reasons: str | None = None  # NVML's, of any of them, joined by commas; "" where there is none
    gpu_other_processes: int | None = None  # that compute on them and are not the engine's


class ServerCounters(Frozen):
    """Cumulative counters of a server at one moment; None where the engine does not count it."""

    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    num_drafts: float | None = None
    num_draft_tokens: float | None = None
    num_accepted_tokens: float | None = None
    num_accepted_tokens_per_position: tuple[float, ...] | None = None
    prefix_cache_queries: float | None = None
    prefix_cache_hits: float | None = None
    num_preemptions: float | None = None


class Circumstances(Frozen):
    """Everything around a run that could have changed its numbers."""

    hardware: str  # the accelerator, or the processor where there is none
    host: str
    cpu_count: int
    memory_bytes: int
    os: str
    python_version: str
    drafthouse_revision: str | None
    engine: str
    engine_version: str | None
    command: tuple[str, ...]
    environment: dict[str, str] = Field(default_factory=dict)  # what the engine's profile set, not the whole of it
    effective_config: dict[str, str] = Field(default_factory=dict)  # as the engine logged it
    target_path: str
    target_digest: str | None = None  # SHA-256 over the weights, where the target is a folder
    target_revision: str | None = None  # the hub's commit, where it is a hub name and the cache tells
    draft_path: str | None = None
    draft_digest: str | None = None  # likewise of the draft model
    draft_revision: str | None = None
    driver_version: str | None = None  # of the NVIDIA driver
    gpus: tuple[str, ...] = ()  # those the engine used, each `name (uuid)`
    gpus_found_by: str | None = None  # how it is known that these are the engine's
    settings: dict[str, JsonValue] = Field(default_factory=dict)  # the worker's, without addresses and secrets
    start_s: float | None = None  # from exec to the first answered request


class ClientHealth(Frozen):
    """How well the measuring client itself kept up."""

    loop_lag_p99_ms: float
    loop_lag_max_ms: float
    late_send_max_ms: float | None  # actual minus intended, requests that waited for a free slot excluded
    cpu_s: float


class Identity(Frozen):
    """Digests of what was measured (lab.study.cell_ids): equal in two runs of any study that measured the same."""

    cell_id: str
    arm_id: str
    workload_id: str
    load_id: str
    dataset_digest: str | None = None  # SHA-256 of the dataset's file; None for one that is made and not read


class RunRecord(Frozen):
    """`run.json`: one execution of a cell and its circumstances. The requests lie beside it."""

    format_version: int = BUNDLE_FORMAT_VERSION
    run_id: str
    cell_key: str
    job_id: str
    study_id: str  # digest of the study's content
    study_name: str
    target: str
    arm: Arm
    is_baseline: bool
    workload: Workload
    load: Load
    sampling: Sampling
    slo: Slo
    endpoint: Literal["completions", "chat"]
    repeat: int
    launch_index: int
    attempt: int
    status: Literal["completed", "failed"]
    error: str | None = None
    started_at: str  # UTC, ISO 8601
    duration_s: float | None = None  # of the measured window; None where there was none
    warmup_requests: int = 0  # that were answered before the window
    warmup_s: float | None = None
    idle_before_s: float | None = None  # from the end of the previous cell on this launch
    counters_before: ServerCounters | None = None
    counters_after: ServerCounters | None = None
    client: ClientHealth | None = None
    log_begin_bytes: int | None = None  # length of the engine's log when the measured window began
    log_end_bytes: int | None = None  # and when it ended
    prompts_seed: int | None = None  # the study's seed: which prompts, in which order, at which moments
    identity: Identity | None = None
    circumstances: Circumstances
