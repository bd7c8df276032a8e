"""Decide for each workload and concurrency: enable speculation, do not, or measure this next.

Two published sources serve as rules: a checklist of practice, and a tuning procedure measured on a mixture of experts.
The checklist covers interactive use, concurrency, length of answers, acceptance, memory and engine support. The
procedure begins with 3 drafted tokens, tries 4 to 5 where over 50 % are accepted, and drops to 2 or changes the draft
under 30 %. A point is made only where the runs have figures for it, and quotes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lab.advice import prediction
from lab.metrics.number_format import percentage, ratio
from lab.study.methods import method_of

Outcome = Literal["faster", "slower", "no difference", "inconclusive"]
Basis = Literal["measured", "expected", "rule of thumb"]
Action = Literal["enable", "do not enable", "measure this next"]
#: A measured speed-up this far below what its acceptance length allows has lost the rest to verification.
_FAR_BELOW = 0.75
_Key = tuple[str, int, str]
#: Up to this concurrency a person reads along and waits for each token.
_INTERACTIVE = 4
_FEW_CONCURRENT, _MANY_CONCURRENT = 10, 32
_LONG_OUTPUT_TOKENS, _SHORT_OUTPUT_TOKENS = 50, 20
_LOW_ALPHA, _HIGH_ALPHA = 0.55, 0.65
_DRAFT_GIB = "2 to 8 GB"
_GIB = 2**30
#: Two arms of an engine that reserves all of its memory at the start differ by less than this.
_SAME_GIB = 0.1
_SHOWN_CHARACTERS = 300
_LOW_RATE, _HIGH_RATE = 0.30, 0.50
#: How many drafted tokens to begin with.
FIRST_GAMMA = 3


@dataclass(frozen=True)
class Figures:
    """Figures of an arm in one cell other than throughput, as medians and maxima over its runs; None is unknown."""

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


def advise(measured: Sequence[Measured], failed: Sequence[Failed] = ()) -> list[Advice]:
    """Return one verdict per workload, concurrency and load, in this order.

    `measured` must hold valid runs only; `failed` the failed runs of speculating arms.
    """
    keys = sorted({*map(_key, measured), *map(_key, failed)})
    return [
        _verdict(
            key,
            [cell for cell in measured if _key(cell) == key],
            list(unsupported([cell for cell in failed if _key(cell) == key])),
        )
        for key in keys
    ]


def arm_with_k(arm: str, gamma: int | None) -> str:
    """Return the arm's name with its k, like `draft (k = 3)`; the name alone if it states k, like `draft k=3`."""
    return arm if gamma is None or re.search(rf"\bk ?= ?{gamma}\b", arm) else f"{arm} (k = {gamma})"


def _key(cell: Measured | Failed) -> _Key:
    return (cell.workload, cell.concurrency, cell.pattern)


def _verdict(key: _Key, measured: list[Measured], failures: list[Reason]) -> Advice:
    """Choose the fastest arm that is certainly faster; else the one that still might be; else none."""
    faster = [cell for cell in measured if cell.outcome == "faster"]
    inconclusive = [cell for cell in measured if cell.outcome == "inconclusive"]
    if faster:
        return _advice("enable", max(faster, key=_speed), failures)
    if inconclusive:
        return _advice("measure this next", max(inconclusive, key=_speed), failures)
    reasons = [line for cell in measured for line in (_evidence(cell), *tuning(cell))]
    rules = checklist(max(measured, key=_speed)) if measured else ()
    workload, concurrency, pattern = key
    return Advice(workload, concurrency, "do not enable", None, None, (*reasons, *rules, *failures), pattern)


def _advice(action: Action, cell: Measured, failures: Sequence[Reason]) -> Advice:
    lines = (_evidence(cell), *_prediction(cell), *tuning(cell), *checklist(cell), *failures)
    return Advice(cell.workload, cell.concurrency, action, cell.arm, cell.gamma, lines, cell.pattern)


def _speed(cell: Measured) -> float:
    return cell.speedup if cell.speedup is not None else 0.0


def _evidence(cell: Measured) -> Reason:
    return Reason(f"{arm_with_k(cell.arm, cell.gamma)} {_words(cell)}", "measured", cell.run_ids)


def _words(cell: Measured) -> str:
    if cell.speedup is None:
        return "is not comparable with the baseline"
    verdicts = {
        "faster": "is faster than the baseline",
        "slower": "is slower than the baseline",
        "no difference": "is no different from the baseline",
        "inconclusive": "cannot be told from the baseline yet",
    }
    return f"{verdicts[cell.outcome]}: {ratio(cell.speedup, cell.low, cell.high)} of its throughput"


def _prediction(cell: Measured) -> Iterator[Reason]:
    """Compare the measured speed-up with the one that the acceptance length would allow if drafting were free."""
    if cell.acceptance_length is None or cell.speedup is None:
        return
    most = prediction.speedup_of_length(cell.acceptance_length, cell.gamma, draft_cost=0.0)
    cost = prediction.implied_draft_cost(cell.speedup, cell.acceptance_length, cell.gamma)
    text = f"{cell.acceptance_length:.2f} tokens per round cap the speed-up at {most:.2f}×"
    if cost is not None and cell.speedup < _FAR_BELOW * most:
        text += f"; drafting and verifying cost the rest, about {cost:.2f} target steps per drafted token"
    yield Reason(text, "expected", cell.run_ids)


def checklist(cell: Measured) -> Iterator[Reason]:
    """List what published practice says about the cell; where it says nothing, only what was measured.

    The rules are about models that need a GPU, so they do not apply to runs without one.
    """
    ours, theirs = cell.own.tpot_ms, cell.baseline.tpot_ms
    if cell.concurrency <= _INTERACTIVE and ours is not None and theirs:
        yield Reason(
            f"concurrency {cell.concurrency} is interactive use (up to {_INTERACTIVE}), where the time per token is "
            f"noticed: a token takes {cell.arm} {ours:.3g} ms and the baseline {theirs:.3g} ms (medians)",
            "rule of thumb",
            cell.run_ids,
        )
    if cell.own.gpu_memory_bytes is not None:
        yield from (Reason(text, "rule of thumb") for text in _rules_for_gpus(cell))
    yield from _memory(cell)
    ran = f"{cell.own.engine or 'the engine'} ran {cell.method} with k = {cell.gamma}"
    yield Reason(ran, "measured", cell.run_ids)


def _rules_for_gpus(cell: Measured) -> Iterator[str]:
    if cell.concurrency > _MANY_CONCURRENT:
        yield f"concurrency {cell.concurrency}, over {_MANY_CONCURRENT}: likely counterproductive"
    elif cell.concurrency < _FEW_CONCURRENT:
        yield f"concurrency {cell.concurrency}, under {_FEW_CONCURRENT}: a strong candidate"
    tokens = cell.output_tokens
    if tokens is not None and tokens < _SHORT_OUTPUT_TOKENS:
        yield f"answers of {tokens:.0f} tokens, under {_SHORT_OUTPUT_TOKENS}: marginal"
    elif tokens is not None and tokens > _LONG_OUTPUT_TOKENS:
        yield f"answers of {tokens:.0f} tokens, over {_LONG_OUTPUT_TOKENS}: long enough"
    alpha = None if cell.acceptance_length is None else prediction.alpha_of(cell.acceptance_length, cell.gamma)
    if alpha is not None and alpha < _LOW_ALPHA:
        yield f"acceptance of {alpha:.2f} a token, under {_LOW_ALPHA}: seldom worth it"
    elif alpha is not None and alpha > _HIGH_ALPHA:
        yield f"acceptance of {alpha:.2f} a token, over {_HIGH_ALPHA}: meaningful gains"


def _memory(cell: Measured) -> Iterator[Reason]:
    """State the GPU memory that the draft takes, if both arms have telemetry of it."""
    if method_of(cell.method).draft_model == "refused":
        yield Reason(f"{cell.arm} drafts without a model, so it needs no memory for one", "expected", cell.run_ids)
        return
    ours, theirs = cell.own.gpu_memory_bytes, cell.baseline.gpu_memory_bytes
    if ours is None or theirs is None:
        return
    more_gib = (ours - theirs) / _GIB
    if abs(more_gib) >= _SAME_GIB:
        more = "more" if more_gib > 0 else "less"
        used = f"{cell.arm} had {abs(more_gib):.1f} GiB {more} GPU memory in use than the baseline"
    else:
        used = (
            f"{cell.arm} had as much GPU memory in use as the baseline: an engine that reserves all of it at start-up "
            "takes the draft's part from the KV cache"
        )
    full, other = cell.own.kv_cache_usage, cell.baseline.kv_cache_usage
    if full is not None and other is not None:
        used += f"; {cell.arm}'s KV cache was at most {percentage(full)} full, the baseline's {percentage(other)}"
    yield Reason(f"{used}; {_DRAFT_GIB} are usual for a draft", "measured", cell.run_ids)


def unsupported(failed: Sequence[Failed]) -> Iterator[Reason]:
    """List the arms that failed, with the engine's message: the engine may lack support."""
    for failure in failed:
        runs = f"{len(failure.run_ids)} {'run' if len(failure.run_ids) == 1 else 'runs'}"
        words = " ".join(failure.error.split())[:_SHOWN_CHARACTERS]
        yield Reason(
            f"{failure.arm} ({failure.method}, k = {failure.gamma}) failed in {runs}: {words}",
            "measured",
            failure.run_ids,
        )


def tuning(cell: Measured) -> Iterator[Reason]:
    """Suggest the number of drafted tokens to try next."""
    rate = cell.acceptance_rate
    if rate is None:
        return
    if rate > _HIGH_RATE and cell.gamma <= FIRST_GAMMA:
        yield Reason(
            f"{percentage(rate)} of {cell.arm}'s drafted tokens are accepted, over {percentage(_HIGH_RATE)}: "
            "try 4 to 5 drafted tokens",
            "rule of thumb",
            cell.run_ids,
        )
    elif rate < _LOW_RATE:
        instead = "drop to 2 drafted tokens or change the draft model" if cell.gamma > 2 else "change the draft model"
        yield Reason(
            f"{percentage(rate)} of {cell.arm}'s drafted tokens are accepted, under {percentage(_LOW_RATE)}: {instead}",
            "rule of thumb",
            cell.run_ids,
        )
