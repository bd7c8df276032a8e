"""The records of one run. Times within a run are seconds since its measured window began (monotonic clock).

Of a run that was measured in rounds they are measured seconds: the clock stands between one of its windows and the next
one, so that they join without a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, get_type_hints

from pydantic import Field, JsonValue

from lab.study import Arm, Frozen, Load, Sampling, Slo, Trial, Workload
from lab.study.model_base import RecordField

#: The version of the bundle format that this Drafthouse writes. A field that a record here, or a part of a study in
#: RunRecord, gains is marked with the next version, which becomes the written one:
#: `Annotated[str | None, RecordField("what it means", since=16)] = None`.
BUNDLE_FORMAT_VERSION = 16
#: How the error of a request begins that never left the client.
NOT_SENT = "not sent: "


def record_fields(record: type) -> dict[str, RecordField]:
    """Return the declaration of every field of a record that has one, by name, in order."""
    hints = get_type_hints(record, include_extras=True)
    return {
        name: mark
        for name, hint in hints.items()
        for mark in getattr(hint, "__metadata__", ())
        if isinstance(mark, RecordField)
    }


@dataclass(frozen=True)
class RequestRecord:
    """One request of the measured window. None means unknown or never happened; it is never a zero in disguise."""

    index: Annotated[int, RecordField("position in the order of sending, from 0")]
    prompt_id: Annotated[str, RecordField("the prompt, the same id in every arm")]
    category: Annotated[str | None, RecordField("the prompt's category in its dataset")]
    prompt: Annotated[str, RecordField("as sent")]
    requested_output_tokens: Annotated[int, RecordField("most tokens the server may generate", "tokens")]
    intended_send_s: Annotated[
        float, RecordField("when it was due; all times here are seconds since the window began", "s")
    ]
    sent_s: Annotated[float | None, RecordField("when it left the client", "s")]
    first_token_s: Annotated[float | None, RecordField("when the first output arrived", "s")]
    end_s: Annotated[float | None, RecordField("when the last byte arrived, or it failed", "s")]
    chunk_s: Annotated[tuple[float, ...], RecordField("when each streamed chunk with output arrived", "s")]
    chunk_tokens: Annotated[
        tuple[int, ...] | None,
        RecordField("tokens of each chunk, by the server's count", "tokens"),
    ]
    prompt_tokens: Annotated[int | None, RecordField("length by the server's usage", "tokens")]
    completion_tokens: Annotated[int | None, RecordField("length by the server's usage", "tokens")]
    finish_reason: Annotated[str | None, RecordField("why the output ended, by the server")]
    error: Annotated[str | None, RecordField("why it failed; null if it succeeded")]
    output_text: Annotated[str, RecordField("the text that came back")]
    spec_drafts: Annotated[int | None, RecordField("rounds by the server's count", "rounds")] = None
    spec_draft_tokens: Annotated[int | None, RecordField("tokens drafted for it", "tokens")] = None
    spec_accepted_tokens: Annotated[int | None, RecordField("drafted tokens accepted for it", "tokens")] = None
    sent_prompt_tokens: Annotated[
        int | None,
        RecordField(
            "length as sent, by the client's count; prompt_tokens are fewer if the server truncated",
            "tokens",
        ),
    ] = None
    output_token_ids: Annotated[
        tuple[int, ...] | None,
        RecordField("its token ids; null if sampled or not reported"),
    ] = None
    session_id: Annotated[
        str | None,
        RecordField("the conversation, the same id in every arm"),
    ] = None
    turn: Annotated[int | None, RecordField("turn of the session, from 1")] = None
    rounds_drafted: Annotated[
        tuple[int, ...] | None,
        RecordField(
            "histogram: rounds_count[i] rounds drafted rounds_drafted[i] tokens, and rounds_accepted[i] were accepted",
            "tokens",
        ),
    ] = None
    rounds_accepted: Annotated[tuple[int, ...] | None, RecordField("see rounds_drafted", "tokens")] = None
    rounds_count: Annotated[tuple[int, ...] | None, RecordField("see rounds_drafted", "rounds")] = None
    reasoning_tokens: Annotated[
        int | None,
        RecordField("output tokens before the answer; 0 without reasoning", "tokens"),
    ] = None
    reasoning_chars: Annotated[int | None, RecordField("characters of output_text before the answer")] = None
    first_answer_s: Annotated[float | None, RecordField("when the first output after the reasoning arrived", "s")] = (
        None
    )
    expected: Annotated[str | None, RecordField("the dataset's expected answer")] = None
    tests_passed: Annotated[
        float | None,
        RecordField("1 if the answer's code passed the expected tests, 0 if not"),
    ] = None
    reasoning_rounds: Annotated[
        int | None,
        RecordField(
            "rounds that began before the answer; null if the server does not list its rounds",
            "rounds",
        ),
    ] = None
    reasoning_accepted_tokens: Annotated[int | None, RecordField("tokens accepted in reasoning_rounds", "tokens")] = (
        None
    )
    cached_prompt_tokens: Annotated[
        int | None,
        RecordField(
            "prompt tokens from a cache, as the answer reports",
            "tokens",
            since=14,
        ),
    ] = None
    resent: Annotated[
        int | None,
        RecordField(
            "times it was sent again after the server closed the connection",
            since=14,
        ),
    ] = None
    round: Annotated[
        int | None,
        RecordField(
            "the window in which it was sent, from 0; null if the run had one",
            since=15,
        ),
    ] = None


@dataclass(frozen=True)
class TelemetrySample:
    """One second of the measured window: figures of the client, then what the probes read at the end of the second.

    None if a probe has nothing to read: no GPU, or an engine that does not report the figure. GPU figures combine all
    GPUs that the engine uses.
    """

    t_s: Annotated[float, RecordField("seconds since the window began", "s")]
    loop_lag_ms: Annotated[float, RecordField("worst lag of the client's event loop", "ms")]
    requests_in_flight: Annotated[int, RecordField("requests sent and not fully answered", "requests")]
    requests_done: Annotated[int, RecordField("requests ended since the window began", "requests")]
    chunks_received: Annotated[int, RecordField("chunks received since the window began", "chunks")]
    engine_running: Annotated[int | None, RecordField("requests the engine worked on", "requests")] = None
    engine_waiting: Annotated[int | None, RecordField("requests in the engine's queue", "requests")] = None
    kv_cache_usage: Annotated[float | None, RecordField("share in use, 0 to 1", "fraction")] = None
    host_cpu_percent: Annotated[float | None, RecordField("of the client's host", "percent")] = None
    host_memory_used_bytes: Annotated[int | None, RecordField("of the client's host", "bytes")] = None
    gpu_utilisation_percent: Annotated[float | None, RecordField("mean of the engine's GPUs", "percent")] = None
    gpu_memory_used_bytes: Annotated[int | None, RecordField("sum of the engine's GPUs", "bytes")] = None
    gpu_power_w: Annotated[float | None, RecordField("sum of the engine's GPUs", "W")] = None
    gpu_sm_clock_mhz: Annotated[float | None, RecordField("of the slowest GPU", "MHz")] = None
    gpu_memory_clock_mhz: Annotated[float | None, RecordField("of the slowest GPU", "MHz")] = None
    gpu_temperature_c: Annotated[float | None, RecordField("of the hottest GPU", "°C")] = None
    gpu_throttle_reasons: Annotated[
        str | None,
        RecordField("NVML's reasons for reduced clocks, joined by commas"),
    ] = None
    gpu_other_processes: Annotated[
        int | None,
        RecordField("processes on its GPUs other than the engine's", "processes"),
    ] = None
    other_cpu_percent: Annotated[
        float | None,
        RecordField(
            "share of the run's processors that other programs took, with the hypervisor's other guests",
            "percent",
            since=14,
        ),
    ] = None
    run_queue: Annotated[int | None, RecordField("threads of the host that ran or waited", "threads", since=14)] = None
    memory_pressure_percent: Annotated[
        float | None,
        RecordField("share of time that a program waited for memory", "percent", since=14),
    ] = None
    cpu_mhz: Annotated[float | None, RecordField("mean clock of some of its processors", "MHz", since=14)] = None
    cpu_throttled_percent: Annotated[
        float | None,
        RecordField(
            "share of periods in which the container's quota held the run back",
            "percent",
            since=14,
        ),
    ] = None


#: The line that marks a gap in a stored log.
LEFT_OUT_LINE = "[{} bytes of the engine's log were left out here]"


@dataclass(frozen=True)
class EngineLog:
    """The stored part of an engine's log, and where in it the measured window begins and ends; None if unknown."""

    content: bytes
    begin_bytes: int | None = None
    end_bytes: int | None = None


class ServerCounters(Frozen):
    """Cumulative counters of a server at one moment; None if the engine does not count it."""

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
    """Everything in a run's environment that could have changed its numbers."""

    hardware: Annotated[str, RecordField("the accelerator, or the processor if there is none")]
    host: Annotated[str, RecordField("name of the machine")]
    cpu_count: Annotated[int, RecordField("of the machine")]
    memory_bytes: Annotated[int, RecordField("of the machine")]
    os: Annotated[str, RecordField("of the machine")]
    python_version: Annotated[str, RecordField("of the client")]
    drafthouse_revision: Annotated[str | None, RecordField("Drafthouse's own revision")]
    engine: Annotated[str, RecordField("the engine that served")]
    engine_version: Annotated[str | None, RecordField("version that the engine itself reports")]
    command: Annotated[tuple[str, ...], RecordField("the engine's command", column="command_json")]
    environment: Annotated[
        dict[str, str], RecordField("the engine's environment variables", column="environment_json")
    ] = Field(default_factory=dict)
    effective_config: Annotated[
        dict[str, str],
        RecordField("the engine's effective settings, by its log", column="effective_config_json"),
    ] = Field(default_factory=dict)
    target_path: Annotated[str, RecordField("where it was loaded from")]
    target_digest: Annotated[str | None, RecordField("SHA-256 of the weights, if it is a folder")] = None
    target_revision: Annotated[str | None, RecordField("the hub's commit, if the cache records it")] = None
    draft_path: Annotated[str | None, RecordField("where it was loaded from")] = None
    draft_digest: Annotated[str | None, RecordField("SHA-256 of the weights, if it is a folder")] = None
    draft_revision: Annotated[
        str | None,
        RecordField("the hub's commit, if the cache records it"),
    ] = None
    driver_version: Annotated[str | None, RecordField("of the NVIDIA driver")] = None
    gpus: tuple[str, ...] = ()  # those the engine used, each `name (uuid)`
    gpus_found_by: Annotated[str | None, RecordField("how they were identified")] = None
    settings: dict[str, JsonValue] = Field(default_factory=dict)  # of the worker, without addresses and secrets
    slot: Annotated[int | None, RecordField("slot of the machine, from 1; null without slots")] = None
    clock_behind_s: Annotated[
        float | None,
        RecordField(
            "the database's time minus the machine's; already added to started_at",
            "s",
            since=15,
        ),
    ] = None
    start_s: Annotated[
        float | None,
        RecordField(
            "from the start to the first answer; a share, if engines started together",
            column="engine_start_s",
        ),
    ] = None


class ClientHealth(Frozen):
    """Whether the measuring client kept up with the load."""

    loop_lag_p99_ms: Annotated[float, RecordField("lag of the client's event loop")]
    loop_lag_max_ms: Annotated[float, RecordField("lag of the client's event loop")]
    late_send_max_ms: Annotated[
        float | None,
        RecordField("latest send, without waits for a free stream"),
    ]
    cpu_s: Annotated[float, RecordField("processor time of the client", column="client_cpu_s")]


class IdleEngine(Frozen):
    """The engine of another arm that was up without traffic during the window, and its use of the machine.

    None if unknown: a server that Drafthouse did not start, or a GPU whose driver does not report it.
    """

    arm: str
    cpu_percent: float | None = None  # of one processor
    gpu_percent: float | None = None  # of the multiprocessors of one GPU


class WorkBeside(Frozen):
    """What another of Drafthouse's processes did on the machine during the window."""

    kind: Literal["job", "ingest", "question", "command"]
    what: str
    seconds: float  # within the window; equal work is summed


class RunWindow(Frozen):
    """One of the windows of a run that was measured in rounds; the requests of window i have `round` i."""

    started_at: str  # UTC, ISO 8601; so the order of the arms in a round is known
    start_s: float  # of the run's measured seconds: where the window before ended
    end_s: float
    counted: ServerCounters | None = None  # how much the server's counters grew in it


class Identity(Frozen):
    """Digests of what was measured (lab.study.cell_ids): equal in runs of any study that measured the same."""

    cell_id: Annotated[str, RecordField("SHA-256 of what was measured, equal across studies")]
    arm_id: Annotated[str, RecordField("SHA-256 of the arm without its name")]
    workload_id: Annotated[str, RecordField("SHA-256 of workload, dataset and seed")]
    load_id: Annotated[str, RecordField("SHA-256 of the load without its name")]
    dataset_digest: Annotated[str | None, RecordField("SHA-256 of the dataset's file, if it is one")] = None


class RunRecord(Frozen):
    """`run.json`: one execution of a cell and its environment. The requests are in a file beside it.

    Its fields, and those of its parts, that have a RecordField are columns of `runs`.
    """

    format_version: Annotated[int, RecordField("version of the bundle format")] = BUNDLE_FORMAT_VERSION
    run_id: Annotated[str, RecordField("one execution of a cell")]
    cell_key: Annotated[
        str,
        RecordField("arm, workload, load and repeat in its job; attempts share it"),
    ]
    job_id: Annotated[str, RecordField("the job that ran it")]
    study_id: Annotated[str, RecordField("SHA-256 of the study's content")]
    study_name: Annotated[str, RecordField("the study's name")]
    target: Annotated[str, RecordField("the model that was served")]
    arm: Arm
    is_baseline: Annotated[bool, RecordField("whether it is the job's baseline")]
    workload: Workload
    load: Load
    sampling: Sampling
    slo: Annotated[Slo, RecordField("the SLO", column="slo_json")]
    endpoint: Annotated[Literal["completions", "chat"], RecordField("completions or chat")]
    trial: Trial | None = None  # of a search for a capacity; None for an ordinary run
    repeat: Annotated[int, RecordField("number of the repeat, from 0")]
    order: Annotated[str | None, RecordField("interleaved, fewest_launches or side_by_side", column="arm_order")] = None
    until_decided: Annotated[bool, RecordField("whether the study ran until decided")] = False
    launch_index: Annotated[int, RecordField("engine start within the job, from 0")]
    taken_over_from: Annotated[
        str | None,
        RecordField("the launch (job_id/launch_index) of an earlier study whose engines it used", since=16),
    ] = None
    attempt: Annotated[int, RecordField("earlier attempts at this cell")]
    lease: Annotated[
        int | None,
        RecordField("its lease: how often the job had been claimed", since=15),
    ] = None
    status: Annotated[Literal["completed", "failed"], RecordField("completed or failed")]
    error: Annotated[str | None, RecordField("why it failed")] = None
    ended_early: Annotated[str | None, RecordField("why a trial ended early (no failure)")] = None
    started_at: str  # when the measured window began: UTC, ISO 8601
    duration_s: Annotated[float | None, RecordField("length of the measured window", column="window_s")] = None
    windows: Annotated[
        tuple[RunWindow, ...] | None,
        RecordField(
            "the windows of a run in rounds",
            since=15,
            column="windows_json",
        ),
    ] = None
    warmup_requests: Annotated[int, RecordField("warm-up requests answered; in no metric")] = 0
    warmup_s: Annotated[
        float | None,
        RecordField("of the warm-up, which runs in rounds share"),
    ] = None
    idle_before_s: Annotated[
        float | None,
        RecordField("since the previous run on this engine start"),
    ] = None
    counters_before: Annotated[
        ServerCounters | None,
        RecordField("the server's counters before the window", column="counters_before_json"),
    ] = None
    counters_after: Annotated[
        ServerCounters | None,
        RecordField(
            "the server's counters after the window; of a run in rounds with their growth in each",
            column="counters_after_json",
        ),
    ] = None
    counters_problem: str | None = None  # why they cannot be read; None too if the server need not publish any
    reset_problem: str | None = None  # why the prefix cache was not reset before the window
    client: ClientHealth | None = None
    idle_engines: tuple[IdleEngine, ...] = ()
    beside: tuple[WorkBeside, ...] | None = None  # longest first
    log_begin_bytes: Annotated[int | None, RecordField("bounds of the window in the bundle's engine.log")] = None
    log_end_bytes: Annotated[int | None, RecordField("bounds of the window in the bundle's engine.log")] = None
    prompts_seed: Annotated[int | None, RecordField("the study's seed: of prompts, order and arrival times")] = None
    identity: Identity | None = None
    circumstances: Circumstances
