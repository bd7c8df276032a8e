"""The records of one run. Times within a run are seconds since its measured window began (monotonic clock)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Literal

from pydantic import Field, JsonValue

from lab.study import Arm, Frozen, Load, Sampling, Slo, Trial, Workload

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

#: The first version of the bundle format that is kept, and the one that this Drafthouse writes. A field that a record
#: here, or a part of a study in RunRecord, gains is marked with the next version, which becomes the written one:
#: `_info(..., since=14)` in a request or a sample, `Annotated[str | None, Since(14)] = None` in a part of the run.
FIRST_FORMAT_VERSION = 13
BUNDLE_FORMAT_VERSION = 13


@dataclass(frozen=True)
class FieldInfo:
    """What a field of a record means. The bundle files and the warehouse's columns are generated from these."""

    comment: str
    unit: str | None
    since_format: int  # the first version of the bundle format that has the field


def _info(comment: str, unit: str | None = None, *, since: int = FIRST_FORMAT_VERSION) -> dict[str, FieldInfo]:
    """The metadata of a dataclass field, for `field_infos`."""
    return {"info": FieldInfo(comment, unit, since)}


def field_infos(record: type[DataclassInstance]) -> dict[str, FieldInfo]:
    """Every field of RequestRecord or TelemetrySample by name, in the order of the columns."""
    return {field.name: field.metadata["info"] for field in fields(record)}


@dataclass(frozen=True)
class RequestRecord:
    """One request of the measured window. None means unknown or never happened; it is never a zero in disguise."""

    index: int = field(metadata=_info("position in the order of sending, from 0"))
    prompt_id: str = field(metadata=_info("identifies the prompt: the same prompt has the same id in every arm"))
    category: str | None = field(metadata=_info("category of the prompt, as its dataset names it"))
    prompt: str = field(metadata=_info("the prompt that was sent"))
    requested_output_tokens: int = field(metadata=_info("most tokens that the server may generate", "tokens"))
    intended_send_s: float = field(
        metadata=_info("when the load wanted it sent; like all times here, seconds since the window began", "s")
    )
    sent_s: float | None = field(metadata=_info("when it left the client", "s"))
    first_token_s: float | None = field(metadata=_info("when the first output arrived", "s"))
    end_s: float | None = field(metadata=_info("when the last byte arrived, or the request failed", "s"))
    chunk_s: tuple[float, ...] = field(metadata=_info("when each streamed chunk with output arrived", "s"))
    chunk_tokens: tuple[int, ...] | None = field(
        metadata=_info("tokens in each of those chunks; null if the server does not count them", "tokens")
    )
    prompt_tokens: int | None = field(metadata=_info("length of the prompt in the server's usage", "tokens"))
    completion_tokens: int | None = field(metadata=_info("length of the output in the server's usage", "tokens"))
    finish_reason: str | None = field(metadata=_info("why the output ended, as the server reports it"))
    error: str | None = field(metadata=_info("why the request failed; null if it succeeded"))
    output_text: str = field(metadata=_info("the text that came back"))
    spec_drafts: int | None = field(
        default=None, metadata=_info("verification rounds of this request, as the server reports them", "rounds")
    )
    spec_draft_tokens: int | None = field(default=None, metadata=_info("tokens drafted for this request", "tokens"))
    spec_accepted_tokens: int | None = field(
        default=None, metadata=_info("drafted tokens accepted for this request", "tokens")
    )
    sent_prompt_tokens: int | None = field(
        default=None,
        metadata=_info(
            "length of the prompt as sent, counted by the client; a smaller prompt_tokens means that the server "
            "truncated the prompt, null that the client could not count",
            "tokens",
        ),
    )
    output_token_ids: tuple[int, ...] | None = field(
        default=None,
        metadata=_info(
            "the output as token ids of the target's tokenizer; null if it was not greedy or the engine does not "
            "report them",
        ),
    )
    session_id: str | None = field(
        default=None,
        metadata=_info(
            "identifies the session (conversation): the same session has the same id in every arm; null if the prompts "
            "were not replayed as sessions",
        ),
    )
    turn: int | None = field(
        default=None, metadata=_info("number of the turn within its session, from 1; null without sessions")
    )
    rounds_drafted: tuple[int, ...] | None = field(
        default=None,
        metadata=_info(
            "the request's verification rounds as a histogram, with rounds_accepted and rounds_count: entry i of the "
            "three says that so many rounds (rounds_count) drafted so many tokens (this) and had so many accepted",
            "tokens",
        ),
    )
    rounds_accepted: tuple[int, ...] | None = field(
        default=None, metadata=_info("tokens accepted in each of the rounds of that entry", "tokens")
    )
    rounds_count: tuple[int, ...] | None = field(
        default=None, metadata=_info("rounds that drafted and accepted so many tokens", "rounds")
    )
    reasoning_tokens: int | None = field(
        default=None,
        metadata=_info(
            "tokens of the output before the answer; 0 if the model did not think, null if it cannot be told",
            "tokens",
        ),
    )
    reasoning_chars: int | None = field(default=None, metadata=_info("characters of output_text before the answer"))
    first_answer_s: float | None = field(
        default=None, metadata=_info("when the first output that is not reasoning arrived", "s")
    )
    expected: str | None = field(
        default=None, metadata=_info("the answer that the dataset expects, to score the output with")
    )
    tests_passed: float | None = field(
        default=None,
        metadata=_info(
            "1 if the code in the answer passed the expected tests after the run, 0 if not; null if they were not run "
            "or it cannot be told",
        ),
    )
    reasoning_rounds: int | None = field(
        default=None,
        metadata=_info(
            "verification rounds that began before the answer; 0 if the model did not think, null if the server does "
            "not list the rounds, or tokens came from steps that are in no round",
            "rounds",
        ),
    )
    reasoning_accepted_tokens: int | None = field(
        default=None, metadata=_info("drafted tokens accepted in those rounds", "tokens")
    )


@dataclass(frozen=True)
class TelemetrySample:
    """One second of the measured window: the client's own figures, then what the probes saw at its end.

    None if a probe has nothing to read: no GPU, or an engine that does not report the figure. GPU figures are those of
    all GPUs that the engine uses, together.
    """

    t_s: float = field(metadata=_info("seconds since the window began", "s"))
    loop_lag_ms: float = field(metadata=_info("worst lag of the client's event loop in this second", "ms"))
    requests_in_flight: int = field(metadata=_info("requests sent and not yet fully answered", "requests"))
    requests_done: int = field(metadata=_info("requests ended since the window began", "requests"))
    chunks_received: int = field(metadata=_info("streamed chunks received since the window began", "chunks"))
    engine_running: int | None = field(
        default=None, metadata=_info("requests the engine worked on, as it reports itself", "requests")
    )
    engine_waiting: int | None = field(default=None, metadata=_info("requests in the engine's own queue", "requests"))
    kv_cache_usage: float | None = field(
        default=None, metadata=_info("share of the engine's KV cache in use, 0 to 1", "fraction")
    )
    host_cpu_percent: float | None = field(
        default=None,
        metadata=_info("use of all processors of the client's host since the previous sample", "percent"),
    )
    host_memory_used_bytes: int | None = field(
        default=None, metadata=_info("memory of the client's host that is in use", "bytes")
    )
    gpu_utilisation_percent: float | None = field(
        default=None,
        metadata=_info("share of the time in which the GPUs computed, mean of the engine's GPUs", "percent"),
    )
    gpu_memory_used_bytes: int | None = field(
        default=None, metadata=_info("memory in use, sum of the engine's GPUs", "bytes")
    )
    gpu_power_w: float | None = field(default=None, metadata=_info("power drawn, sum of the engine's GPUs", "W"))
    gpu_sm_clock_mhz: float | None = field(
        default=None, metadata=_info("multiprocessor clock of the slowest of the engine's GPUs", "MHz")
    )
    gpu_memory_clock_mhz: float | None = field(
        default=None, metadata=_info("memory clock of the slowest of the engine's GPUs", "MHz")
    )
    gpu_temperature_c: float | None = field(
        default=None, metadata=_info("temperature of the hottest of the engine's GPUs", "°C")
    )
    gpu_throttle_reasons: str | None = field(
        default=None,
        metadata=_info(
            "NVML's reasons for which the clocks of any of the engine's GPUs are held back, joined by commas; empty "
            "if there are none",
        ),
    )
    gpu_other_processes: int | None = field(
        default=None,
        metadata=_info(
            "processes other than the engine's that computed on its GPUs; null if unknown",
            "processes",
        ),
    )


#: The line that replaces what was left out of a stored log.
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
    """Everything about the environment of a run that could have changed its numbers."""

    hardware: str  # the accelerator, or the processor if there is none
    host: str
    cpu_count: int
    memory_bytes: int
    os: str
    python_version: str
    drafthouse_revision: str | None
    engine: str
    engine_version: str | None
    command: tuple[str, ...]
    environment: dict[str, str] = Field(default_factory=dict)  # only the variables that the engine's profile set
    effective_config: dict[str, str] = Field(default_factory=dict)  # as the engine logged it
    target_path: str
    target_digest: str | None = None  # SHA-256 of the weights, if the target is a folder
    target_revision: str | None = None  # the hub's commit, if it is a hub name and the cache records it
    draft_path: str | None = None
    draft_digest: str | None = None  # the same for the draft model
    draft_revision: str | None = None
    driver_version: str | None = None  # of the NVIDIA driver
    gpus: tuple[str, ...] = ()  # those the engine used, each `name (uuid)`
    gpus_found_by: str | None = None  # how the engine's GPUs were determined
    settings: dict[str, JsonValue] = Field(default_factory=dict)  # of the worker, without addresses and secrets
    slot: int | None = None  # of the host, from 1; None if the worker did not share the host
    start_s: float | None = None  # from exec to the first answered request; divided by engines that started together


class ClientHealth(Frozen):
    """Whether the measuring client kept up with the load."""

    loop_lag_p99_ms: float
    loop_lag_max_ms: float
    late_send_max_ms: float | None  # actual minus intended, requests that waited for a free slot excluded
    cpu_s: float


class IdleEngine(Frozen):
    """The engine of another arm that was up without traffic during the window; what it took from the machine.

    None if unknown: a server that is not ours, or a GPU whose driver does not report it.
    """

    arm: str
    cpu_percent: float | None = None  # of one processor
    gpu_percent: float | None = None  # of the multiprocessors of one GPU


class WorkBeside(Frozen):
    """What another process of ours did on the machine during the window."""

    kind: Literal["job", "ingest", "question", "command"]
    what: str
    seconds: float  # within the window; equal work is summed


class Identity(Frozen):
    """Digests of what was measured (lab.study.cell_ids): equal in runs of any study that measured the same."""

    cell_id: str
    arm_id: str
    workload_id: str
    load_id: str
    dataset_digest: str | None = None  # SHA-256 of the dataset's file; None for a synthetic one


class RunRecord(Frozen):
    """`run.json`: one execution of a cell and its environment. The requests are in a file beside it."""

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
    trial: Trial | None = None  # of a search for a capacity; None for an ordinary run
    repeat: int
    order: str | None = None  # of the study's runs: `lab.study.Study.order`
    until_decided: bool = False  # the study looks at its verdicts after every repeat
    launch_index: int
    attempt: int
    status: Literal["completed", "failed"]
    error: str | None = None
    ended_early: str | None = None  # why a trial was ended before its last answer; an early end is not a failure
    started_at: str  # UTC, ISO 8601
    duration_s: float | None = None  # of the measured window; None if there was none
    warmup_requests: int = 0  # answered before the window
    warmup_s: float | None = None
    idle_before_s: float | None = None  # from the end of the previous cell on this launch
    counters_before: ServerCounters | None = None
    counters_after: ServerCounters | None = None
    counters_problem: str | None = None  # why they cannot be read; None too if the server need not publish any
    reset_problem: str | None = None  # why the prefix cache was not reset before the window
    client: ClientHealth | None = None
    idle_engines: tuple[IdleEngine, ...] = ()
    beside: tuple[WorkBeside, ...] | None = None  # longest first
    log_begin_bytes: int | None = None  # where in the bundle's copy of the engine's log the measured window began
    log_end_bytes: int | None = None  # and where it ended
    prompts_seed: int | None = None  # the study's seed, for prompts, their order and their arrival times
    identity: Identity | None = None
    circumstances: Circumstances
