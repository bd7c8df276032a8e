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
    prompt_id: Annotated[str, RecordField("identifies the prompt: the same prompt has the same id in every arm")]
    category: Annotated[str | None, RecordField("category of the prompt, as its dataset names it")]
    prompt: Annotated[str, RecordField("the prompt that was sent")]
    requested_output_tokens: Annotated[int, RecordField("most tokens that the server may generate", "tokens")]
    intended_send_s: Annotated[
        float, RecordField("when the load wanted it sent; like all times here, seconds since the window began", "s")
    ]
    sent_s: Annotated[float | None, RecordField("when it left the client", "s")]
    first_token_s: Annotated[float | None, RecordField("when the first output arrived", "s")]
    end_s: Annotated[float | None, RecordField("when the last byte arrived, or the request failed", "s")]
    chunk_s: Annotated[tuple[float, ...], RecordField("when each streamed chunk with output arrived", "s")]
    chunk_tokens: Annotated[
        tuple[int, ...] | None,
        RecordField("tokens in each of those chunks; null if the server does not count them", "tokens"),
    ]
    prompt_tokens: Annotated[int | None, RecordField("length of the prompt in the server's usage", "tokens")]
    completion_tokens: Annotated[int | None, RecordField("length of the output in the server's usage", "tokens")]
    finish_reason: Annotated[str | None, RecordField("why the output ended, as the server reports it")]
    error: Annotated[str | None, RecordField("why the request failed; null if it succeeded")]
    output_text: Annotated[str, RecordField("the text that came back")]
    spec_drafts: Annotated[
        int | None, RecordField("verification rounds of this request, as the server reports them", "rounds")
    ] = None
    spec_draft_tokens: Annotated[int | None, RecordField("tokens drafted for this request", "tokens")] = None
    spec_accepted_tokens: Annotated[int | None, RecordField("drafted tokens accepted for this request", "tokens")] = (
        None
    )
    sent_prompt_tokens: Annotated[
        int | None,
        RecordField(
            "length of the prompt as sent, counted by the client; a smaller prompt_tokens means that the server "
            "truncated the prompt, null that the client could not count",
            "tokens",
        ),
    ] = None
    output_token_ids: Annotated[
        tuple[int, ...] | None,
        RecordField(
            "the output as token ids of the target's tokenizer; null if it was not greedy or the engine does not "
            "report them"
        ),
    ] = None
    session_id: Annotated[
        str | None,
        RecordField(
            "identifies the session (conversation): the same session has the same id in every arm; null if the prompts "
            "were not replayed as sessions"
        ),
    ] = None
    turn: Annotated[int | None, RecordField("number of the turn within its session, from 1; null without sessions")] = (
        None
    )
    rounds_drafted: Annotated[
        tuple[int, ...] | None,
        RecordField(
            "the request's verification rounds as a histogram, with rounds_accepted and rounds_count: entry i of the "
            "three says that so many rounds (rounds_count) drafted so many tokens (this) and had so many accepted",
            "tokens",
        ),
    ] = None
    rounds_accepted: Annotated[
        tuple[int, ...] | None, RecordField("tokens accepted in each of the rounds of that entry", "tokens")
    ] = None
    rounds_count: Annotated[
        tuple[int, ...] | None, RecordField("rounds that drafted and accepted so many tokens", "rounds")
    ] = None
    reasoning_tokens: Annotated[
        int | None,
        RecordField(
            "tokens of the output before the answer; 0 if the model did not think, null if it cannot be told", "tokens"
        ),
    ] = None
    reasoning_chars: Annotated[int | None, RecordField("characters of output_text before the answer")] = None
    first_answer_s: Annotated[float | None, RecordField("when the first output that is not reasoning arrived", "s")] = (
        None
    )
    expected: Annotated[str | None, RecordField("the answer that the dataset expects, to score the output with")] = None
    tests_passed: Annotated[
        float | None,
        RecordField(
            "1 if the code in the answer passed the expected tests after the run, 0 if not; null if they were not run "
            "or it cannot be told"
        ),
    ] = None
    reasoning_rounds: Annotated[
        int | None,
        RecordField(
            "verification rounds that began before the answer; 0 if the model did not think, null if the server does "
            "not list the rounds, or tokens came from steps that are in no round",
            "rounds",
        ),
    ] = None
    reasoning_accepted_tokens: Annotated[
        int | None, RecordField("drafted tokens accepted in those rounds", "tokens")
    ] = None
    cached_prompt_tokens: Annotated[
        int | None,
        RecordField(
            "tokens of the prompt that came from a cache, as the answer reports it; null if it does not",
            "tokens",
            since=14,
        ),
    ] = None
    resent: Annotated[
        int | None,
        RecordField(
            "times it was sent again on a new connection, because the server had closed the used one before a byte of "
            "the answer came; null if unknown",
            since=14,
        ),
    ] = None
    round: Annotated[
        int | None,
        RecordField(
            "in which of its run's windows it was sent, from 0: that round sent the same prompts on every arm; null if "
            "the run was measured in one window",
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
    loop_lag_ms: Annotated[float, RecordField("worst lag of the client's event loop in this second", "ms")]
    requests_in_flight: Annotated[int, RecordField("requests sent and not yet fully answered", "requests")]
    requests_done: Annotated[int, RecordField("requests ended since the window began", "requests")]
    chunks_received: Annotated[int, RecordField("streamed chunks received since the window began", "chunks")]
    engine_running: Annotated[
        int | None, RecordField("requests the engine worked on, as it reports itself", "requests")
    ] = None
    engine_waiting: Annotated[int | None, RecordField("requests in the engine's own queue", "requests")] = None
    kv_cache_usage: Annotated[
        float | None, RecordField("share of the engine's KV cache in use, 0 to 1", "fraction")
    ] = None
    host_cpu_percent: Annotated[
        float | None, RecordField("use of all processors of the client's host since the previous sample", "percent")
    ] = None
    host_memory_used_bytes: Annotated[
        int | None, RecordField("memory of the client's host that is in use", "bytes")
    ] = None
    gpu_utilisation_percent: Annotated[
        float | None, RecordField("share of the time in which the GPUs computed, mean of the engine's GPUs", "percent")
    ] = None
    gpu_memory_used_bytes: Annotated[int | None, RecordField("memory in use, sum of the engine's GPUs", "bytes")] = None
    gpu_power_w: Annotated[float | None, RecordField("power drawn, sum of the engine's GPUs", "W")] = None
    gpu_sm_clock_mhz: Annotated[
        float | None, RecordField("multiprocessor clock of the slowest of the engine's GPUs", "MHz")
    ] = None
    gpu_memory_clock_mhz: Annotated[
        float | None, RecordField("memory clock of the slowest of the engine's GPUs", "MHz")
    ] = None
    gpu_temperature_c: Annotated[float | None, RecordField("temperature of the hottest of the engine's GPUs", "°C")] = (
        None
    )
    gpu_throttle_reasons: Annotated[
        str | None,
        RecordField(
            "NVML's reasons for which the clocks of any of the engine's GPUs are held back, joined by commas; empty "
            "if there are none"
        ),
    ] = None
    gpu_other_processes: Annotated[
        int | None,
        RecordField("processes other than the engine's that computed on its GPUs; null if unknown", "processes"),
    ] = None
    other_cpu_percent: Annotated[
        float | None,
        RecordField(
            "share of the processors that the run may use, taken since the previous sample by programs other than the "
            "worker and its engines (other guests of a hypervisor too); null if the engine's processes are unknown",
            "percent",
            since=14,
        ),
    ] = None
    run_queue: Annotated[
        int | None, RecordField("threads of the host that ran or waited for a processor", "threads", since=14)
    ] = None
    memory_pressure_percent: Annotated[
        float | None,
        RecordField("share of the time in which some program of the host waited for memory", "percent", since=14),
    ] = None
    cpu_mhz: Annotated[
        float | None, RecordField("mean clock of some of the processors that the run may use", "MHz", since=14)
    ] = None
    cpu_throttled_percent: Annotated[
        float | None,
        RecordField(
            "share of the periods of the container's processor quota in which it held the run back; null without one",
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
    cpu_count: Annotated[int, RecordField("number of processor cores of the machine")]
    memory_bytes: Annotated[int, RecordField("memory of the machine")]
    os: Annotated[str, RecordField("operating system")]
    python_version: Annotated[str, RecordField("Python version of the measuring client")]
    drafthouse_revision: Annotated[str | None, RecordField("revision of the Drafthouse that measured the run")]
    engine: Annotated[str, RecordField("the engine that served")]
    engine_version: Annotated[str | None, RecordField("version that the engine itself reports")]
    command: Annotated[tuple[str, ...], RecordField("command that started the engine, as JSON", column="command_json")]
    environment: Annotated[
        dict[str, str], RecordField("environment variables set for the engine, as JSON", column="environment_json")
    ] = Field(default_factory=dict)
    effective_config: Annotated[
        dict[str, str],
        RecordField("the engine's effective settings according to its log, as JSON", column="effective_config_json"),
    ] = Field(default_factory=dict)
    target_path: Annotated[str, RecordField("where the target was loaded from")]
    target_digest: Annotated[str | None, RecordField("SHA-256 of the target's weights, if it is a folder")] = None
    target_revision: Annotated[
        str | None, RecordField("the hub's commit of the target, if it is a hub name and the cache records the commit")
    ] = None
    draft_path: Annotated[str | None, RecordField("where the draft model was loaded from")] = None
    draft_digest: Annotated[str | None, RecordField("SHA-256 of the draft model's weights, if it is a folder")] = None
    draft_revision: Annotated[
        str | None,
        RecordField("the hub's commit of the draft model, if it is a hub name and the cache records the commit"),
    ] = None
    driver_version: Annotated[str | None, RecordField("version of the NVIDIA driver")] = None
    gpus: tuple[str, ...] = ()  # those the engine used, each `name (uuid)`
    gpus_found_by: Annotated[str | None, RecordField("how the engine's GPUs were determined")] = None
    settings: dict[str, JsonValue] = Field(default_factory=dict)  # of the worker, without addresses and secrets
    slot: Annotated[
        int | None, RecordField("the slot of that machine, from 1; null if one worker had the whole machine")
    ] = None
    clock_behind_s: Annotated[
        float | None,
        RecordField(
            "the app database's time minus the machine's when the job was claimed; already added to started_at",
            "s",
            since=15,
        ),
    ] = None
    start_s: Annotated[
        float | None,
        RecordField(
            "seconds from the start of the engine to the first answered request; its share if engines started together",
            column="engine_start_s",
        ),
    ] = None


class ClientHealth(Frozen):
    """Whether the measuring client kept up with the load."""

    loop_lag_p99_ms: Annotated[float, RecordField("99th percentile of the lag of the client's event loop")]
    loop_lag_max_ms: Annotated[float, RecordField("worst lag of the client's event loop")]
    late_send_max_ms: Annotated[
        float | None,
        RecordField("largest delay between intended and actual sending, without requests that waited for a free slot"),
    ]
    cpu_s: Annotated[
        float, RecordField("processor time used by the measuring client, in seconds", column="client_cpu_s")
    ]


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

    cell_id: Annotated[
        str, RecordField("SHA-256 of what was measured: equal in runs of any study that measured the same")
    ]
    arm_id: Annotated[str, RecordField("SHA-256 of the arm without its name")]
    workload_id: Annotated[str, RecordField("SHA-256 of the workload, its dataset and its seed")]
    load_id: Annotated[str, RecordField("SHA-256 of the load without its name")]
    dataset_digest: Annotated[
        str | None, RecordField("SHA-256 of the dataset's file; null if the dataset is not a file")
    ] = None


class RunRecord(Frozen):
    """`run.json`: one execution of a cell and its environment. The requests are in a file beside it.

    Its fields, and those of its parts, that have a RecordField are columns of `runs`.
    """

    format_version: Annotated[int, RecordField("version of the bundle format")] = BUNDLE_FORMAT_VERSION
    run_id: Annotated[str, RecordField("identifies the run: one execution of a cell")]
    cell_key: Annotated[
        str,
        RecordField(
            "identifies the cell (arm, workload, load, repeat) within its job; all attempts at a cell share it"
        ),
    ]
    job_id: Annotated[str, RecordField("the job that ran it")]
    study_id: Annotated[str, RecordField("SHA-256 of the study's content")]
    study_name: Annotated[str, RecordField("the study's name")]
    target: Annotated[str, RecordField("the model that was served")]
    arm: Arm
    is_baseline: Annotated[bool, RecordField("whether the other arms of the job are compared with this one")]
    workload: Workload
    load: Load
    sampling: Sampling
    slo: Annotated[Slo, RecordField("the SLO: bounds that a good request meets, as JSON", column="slo_json")]
    endpoint: Annotated[Literal["completions", "chat"], RecordField("completions or chat")]
    trial: Trial | None = None  # of a search for a capacity; None for an ordinary run
    repeat: Annotated[int, RecordField("number of the repeat, from 0")]
    order: Annotated[
        str | None, RecordField("interleaved (A B B A), fewest_launches, or side_by_side", column="arm_order")
    ] = None
    until_decided: Annotated[
        bool, RecordField("whether the study looked at its verdicts after every repeat, to stop when they are decided")
    ] = False
    launch_index: Annotated[int, RecordField("number of the engine start within the job, from 0")]
    taken_over_from: Annotated[
        str | None,
        RecordField(
            "the launch, as job_id/launch_index, that had started its engines for an earlier study; null: its own",
            since=16,
        ),
    ] = None
    attempt: Annotated[int, RecordField("number of earlier attempts at this cell")]
    lease: Annotated[
        int | None,
        RecordField("number of the lease under which it was measured: how often its job was claimed", since=15),
    ] = None
    status: Annotated[Literal["completed", "failed"], RecordField("completed or failed")]
    error: Annotated[str | None, RecordField("why it failed")] = None
    ended_early: Annotated[
        str | None, RecordField("why a trial was ended before its last answer, which is no failure")
    ] = None
    started_at: str  # when the measured window began: UTC, ISO 8601
    duration_s: Annotated[
        float | None, RecordField("length of the measured window on the client's clock, in seconds", column="window_s")
    ] = None
    windows: Annotated[
        tuple[RunWindow, ...] | None,
        RecordField(
            "the windows of a run that was measured in rounds, as JSON; null if it had one window. Everything that is "
            "counted by time leaves out the time between them",
            since=15,
            column="windows_json",
        ),
    ] = None
    warmup_requests: Annotated[
        int, RecordField("warm-up requests answered before the window; excluded from every metric")
    ] = 0
    warmup_s: Annotated[
        float | None,
        RecordField(
            "duration of the warm-up, in seconds; runs in rounds under one load share one of all their workloads"
        ),
    ] = None
    idle_before_s: Annotated[
        float | None,
        RecordField("seconds between the end of the previous run of the same engine start and this warm-up"),
    ] = None
    counters_before: Annotated[
        ServerCounters | None,
        RecordField("the server's counters before the window, as JSON", column="counters_before_json"),
    ] = None
    counters_after: Annotated[
        ServerCounters | None,
        RecordField(
            "the server's counters after the window, as JSON; of several windows those before the first, and what they "
            "grew by in each",
            column="counters_after_json",
        ),
    ] = None
    counters_problem: str | None = None  # why they cannot be read; None too if the server need not publish any
    reset_problem: str | None = None  # why the prefix cache was not reset before the window
    client: ClientHealth | None = None
    idle_engines: tuple[IdleEngine, ...] = ()
    beside: tuple[WorkBeside, ...] | None = None  # longest first
    log_begin_bytes: Annotated[
        int | None, RecordField("where in the bundle's engine.log the measured window began")
    ] = None
    log_end_bytes: Annotated[int | None, RecordField("where in the bundle's engine.log the measured window ended")] = (
        None
    )
    prompts_seed: Annotated[
        int | None, RecordField("the study's seed, which determines the prompts, their order and their arrival times")
    ] = None
    identity: Identity | None = None
    circumstances: Circumstances
