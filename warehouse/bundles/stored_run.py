"""The stored form of `run.json`: one model for each version of the bundle format.

A model says what bundles of its version hold and is never changed once such bundles exist: what RunRecord gains, or a
part of a study in it, is a new version here. Types are checked and unknown fields refused. The rules for studies that
users submit are not repeated, so that these may become stricter while old bundles stay readable.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, JsonValue

from lab.metrics import records
from lab.study import Arm, Load, Sampling, Server, Sessions, Slo, Speculation, Trial, Workload
from lab.study.model_base import FlagValue


class _Stored(BaseModel):
    """Becomes a `record` with the same fields; those that its version lacks have the record's defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    record: ClassVar[type[BaseModel]]


class _Speculation(_Stored):
    record = Speculation
    method: str
    model: str | None = None
    num_speculative_tokens: int
    prompt_lookup_min: int | None = None
    prompt_lookup_max: int | None = None
    options: dict[str, JsonValue] = {}


class _Server(_Stored):
    record = Server
    base_url: str
    served_model: str | None = None
    api_key: str | None = None


class _Arm(_Stored):
    """The first bundles of format 1 have no config, environment and server."""

    record = Arm
    name: str
    engine: str = "vllm"
    speculation: _Speculation | None = None
    flags: dict[str, FlagValue] = {}
    config: dict[str, JsonValue] = {}
    environment: dict[str, str] = {}
    server: _Server | None = None
    baseline: bool = False


class _Workload(_Stored):
    record = Workload
    dataset: str = "reference"
    category: str | None = None
    input_tokens: int | None = None
    prefix_tokens: int | None = None
    num_prefixes: int | None = None
    output_tokens: int = 64
    own_output_lengths: bool = False
    ignore_eos: bool = True


class _Sessions8(_Stored):
    record = Sessions
    answers: str = "own"
    max_turns: int | None = None
    think: str = "recorded"
    think_s: float | None = None


class _Workload8(_Workload):
    sessions: _Sessions8 | None = None


class _Workload9(_Workload8):
    score: str | None = None


class _Load1(_Stored):
    record = Load
    label: str | None = None
    max_concurrency: int
    num_prompts: int
    request_rate_rps: float | None = None
    burstiness: float = 1.0
    arrivals: str = "gamma"
    ramp_to_rps: float | None = None
    duration_s: float | None = None
    stop_on_error_share: float | None = None


class _Load6(_Load1):
    find: str | None = None
    slo_share: float = 0.95
    find_from: float | None = None
    find_to: float | None = None


class _Trial6(_Stored):
    record = Trial
    search: _Load6
    number: int
    arrivals_seed: int


class _Sampling(_Stored):
    record = Sampling
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int = 0


class _Slo(_Stored):
    record = Slo
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None


class _ServerCounters(_Stored):
    record = records.ServerCounters
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    num_drafts: float | None = None
    num_draft_tokens: float | None = None
    num_accepted_tokens: float | None = None
    num_accepted_tokens_per_position: tuple[float, ...] | None = None
    prefix_cache_queries: float | None = None
    prefix_cache_hits: float | None = None
    num_preemptions: float | None = None


class _Circumstances1(_Stored):
    record = records.Circumstances
    hardware: str
    host: str
    cpu_count: int
    memory_bytes: int
    os: str
    python_version: str
    drafthouse_revision: str | None
    engine: str
    engine_version: str | None
    command: tuple[str, ...]
    environment: dict[str, str] = {}
    effective_config: dict[str, str] = {}
    target_path: str
    target_digest: str | None = None
    start_s: float | None = None


class _Circumstances2(_Circumstances1):
    target_revision: str | None = None
    draft_path: str | None = None
    draft_digest: str | None = None
    draft_revision: str | None = None
    driver_version: str | None = None
    gpus: tuple[str, ...] = ()
    gpus_found_by: str | None = None
    settings: dict[str, JsonValue] = {}


class _Circumstances10(_Circumstances2):
    slot: int | None = None


class _ClientHealth(_Stored):
    record = records.ClientHealth
    loop_lag_p99_ms: float
    loop_lag_max_ms: float
    late_send_max_ms: float | None
    cpu_s: float


class _Identity2(_Stored):
    record = records.Identity
    cell_id: str
    arm_id: str
    workload_id: str
    load_id: str
    dataset_digest: str | None = None


class _IdleEngine5(_Stored):
    record = records.IdleEngine
    arm: str
    cpu_percent: float | None = None
    gpu_percent: float | None = None


class _WorkBeside7(_Stored):
    record = records.WorkBeside
    kind: str
    what: str
    seconds: float


class _Run1(_Stored):
    record = records.RunRecord
    format_version: int
    run_id: str
    cell_key: str
    job_id: str
    study_id: str
    study_name: str
    target: str
    arm: _Arm
    is_baseline: bool
    workload: _Workload
    load: _Load1
    sampling: _Sampling
    slo: _Slo
    endpoint: str
    repeat: int
    launch_index: int
    attempt: int
    status: str
    error: str | None = None
    started_at: str
    duration_s: float | None = None
    warmup_requests: int = 0
    warmup_s: float | None = None
    idle_before_s: float | None = None
    counters_before: _ServerCounters | None = None
    counters_after: _ServerCounters | None = None
    client: _ClientHealth | None = None
    circumstances: _Circumstances1


class _Run2(_Run1):
    prompts_seed: int | None = None
    identity: _Identity2 | None = None
    circumstances: _Circumstances2


class _Run3(_Run2):
    log_begin_bytes: int | None = None
    log_end_bytes: int | None = None


class _Run4(_Run3):
    """The run itself is as before: only its requests have more."""


class _Run5(_Run4):
    order: str | None = None
    until_decided: bool = False
    idle_engines: tuple[_IdleEngine5, ...] = ()


class _Run6(_Run5):
    load: _Load6
    trial: _Trial6 | None = None
    ended_early: str | None = None


class _Run7(_Run6):
    beside: tuple[_WorkBeside7, ...] | None = None


class _Run8(_Run7):
    workload: _Workload8


class _Run9(_Run8):
    workload: _Workload9


class _Run10(_Run9):
    circumstances: _Circumstances10


class _Run11(_Run10):
    """The run itself is as before: only its requests have more."""


class _Run12(_Run11):
    """The same."""


class _Run13(_Run12):
    counters_problem: str | None = None
    reset_problem: str | None = None


#: The form of `run.json` by the version of the bundle format.
STORED_RUNS: dict[int, type[_Run1]] = {
    1: _Run1,
    2: _Run2,
    3: _Run3,
    4: _Run4,
    5: _Run5,
    6: _Run6,
    7: _Run7,
    8: _Run8,
    9: _Run9,
    10: _Run10,
    11: _Run11,
    12: _Run12,
    13: _Run13,
}
READABLE_FORMAT_VERSIONS = tuple(STORED_RUNS)


def run_from_json(version: int, content: bytes) -> records.RunRecord:
    """Read a run in the form of a readable version. Raises pydantic's ValidationError if it has another form."""
    run = _record(STORED_RUNS[version].model_validate_json(content))
    assert isinstance(run, records.RunRecord)  # noqa: S101 - tells mypy
    return run


def _record(value: Any) -> Any:
    """Turn stored forms, and tuples of them, into their records, without the checks of what users submit."""
    if isinstance(value, tuple):
        return tuple(map(_record, value))
    if not isinstance(value, _Stored):
        return value
    return value.record.model_construct(**{name: _record(getattr(value, name)) for name in type(value).model_fields})
