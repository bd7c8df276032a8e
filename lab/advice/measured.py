"""The input and output of advice: measured arms, failed arms, and a verdict with its reasons."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["faster", "slower", "no difference", "not enough data"]
Basis = Literal["measured", "expected", "rule of thumb"]
Action = Literal["enable", "do not enable", "measure this next"]


@dataclass(frozen=True)
class Figures:
    """Figures of an arm in one cell besides throughput, as medians and maxima over its runs; None is unknown."""

    tpot_ms: float | None = None  # median time per output token
    gpu_memory_bytes: float | None = None  # most in use on the engine's GPUs, the target's part included
    kv_cache_usage: float | None = None  # most of the KV cache in use, 0 to 1
    engine: str | None = None  # with its version


@dataclass(frozen=True)
class Measured:
    """A speculating arm against the baseline in one cell: a workload at a concurrency."""

    workload: str
    concurrency: int
    arm: str
    method: str
    gamma: int  # num_speculative_tokens
    speedup: float | None  # ratio of output throughputs, candidate / baseline
    low: float | None  # its 95 % interval
    high: float | None
    outcome: Outcome
    acceptance_rate: float | None  # accepted / drafted
    acceptance_length: float | None
    output_tokens: float | None  # mean of the answers
    more_repeats: int | None = None  # about how many more would decide, if the data do not
    run_ids: tuple[str, ...] = ()
    pattern: str = ""  # the load's name
    own: Figures = Figures()
    baseline: Figures = Figures()


@dataclass(frozen=True)
class Failed:
    """A speculating arm whose runs failed in a cell. `error` is the first run's, as the engine reported it."""

    workload: str
    concurrency: int
    arm: str
    method: str
    gamma: int
    error: str
    run_ids: tuple[str, ...]
    pattern: str = ""


@dataclass(frozen=True)
class Reason:
    """A reason for a verdict: its text, its basis, and the runs it rests on."""

    text: str
    basis: Basis
    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advice:
    """The verdict for one workload, concurrency and load."""

    workload: str
    concurrency: int
    action: Action
    arm: str | None  # to enable, or to measure
    gamma: int | None
    reasons: tuple[Reason, ...]
    pattern: str = ""
