"""Advice from a user's own runs: for each workload and concurrency enable speculation, leave it, or measure this next.

Two published sources are rules here: a checklist of practice (under 10 concurrent requests a strong candidate, over 32
likely counterproductive; outputs over 50 tokens good, under 20 marginal; acceptance under 0.55 do not enable, over 0.65
meaningful gains) and a tuning procedure measured on a mixture of experts (begin with 3 drafted tokens; over 50 %
accepted try 4 to 5, under 30 % drop to 2 or change the draft). What was measured wins over every rule: they only say
what to expect and what to try.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from lab import theory

Outcome = Literal["faster", "slower", "no difference", "not enough data"]
Sureness = Literal["measured", "expected", "rule of thumb"]
Action = Literal["enable", "do not enable", "measure this next"]

_FEW_CONCURRENT, _MANY_CONCURRENT = 10, 32
_LONG_OUTPUT_TOKENS, _SHORT_OUTPUT_TOKENS = 50, 20
_LOW_ALPHA, _HIGH_ALPHA = 0.55, 0.65
_LOW_RATE, _HIGH_RATE = 0.30, 0.50
#: How many drafted tokens to begin with.
FIRST_GAMMA = 3
#: A measured speed-up this far below what its acceptance length allows has lost the rest to verification.
_FAR_BELOW = 0.75


@dataclass(frozen=True)
class Measured:
    """A speculating arm against the baseline in one place: a workload at a concurrency."""

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
    more_repeats: int | None = None  # about how many would decide, where the data do not
    run_ids: tuple[str, ...] = ()
    pattern: str = ""  # the load's name


@dataclass(frozen=True)
class Line:
    """A reason: what it says, how sure that is, and the runs it stands on."""

    text: str
    sureness: Sureness
    run_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advice:
    """The verdict for one workload at one concurrency, and where there are several loads of it, for each."""

    workload: str
    concurrency: int
    action: Action
    arm: str | None  # to enable, or to measure
    gamma: int | None
    because: tuple[Line, ...]
    pattern: str = ""


def advise(measured: Sequence[Measured]) -> list[Advice]:
    """One verdict for each workload, concurrency and load, in this order. Give it valid runs only."""

    def place(one: Measured) -> tuple[str, int, str]:
        return (one.workload, one.concurrency, one.pattern)

    return [_verdict(list(there)) for _, there in groupby(sorted(measured, key=place), key=place)]


def _verdict(there: list[Measured]) -> Advice:
    """The fastest arm that is surely faster; else the one that could still turn out so; else none."""
    faster = [one for one in there if one.outcome == "faster"]
    open_ = [one for one in there if one.outcome == "not enough data"]
    if faster:
        return _advice("enable", max(faster, key=_speed))
    if open_:
        return _advice("measure this next", max(open_, key=_speed))
    best = max(there, key=_speed)
    reasons = (line for one in there for line in (_evidence(one), *_tuning(one)))
    return Advice(
        best.workload, best.concurrency, "do not enable", None, None, (*reasons, *_checklist(best)), best.pattern
    )


def _advice(action: Action, one: Measured) -> Advice:
    lines = (_evidence(one), *_prediction(one), *_tuning(one), *_checklist(one))
    return Advice(one.workload, one.concurrency, action, one.arm, one.gamma, lines, one.pattern)


def _speed(one: Measured) -> float:
    return one.speedup if one.speedup is not None else 0.0


def _evidence(one: Measured) -> Line:
    said = f"{one.arm} (k = {one.gamma}) is {_words(one)}"
    if one.outcome == "not enough data":
        needed = f"about {one.more_repeats} more repeats would decide" if one.more_repeats else "add repeats"
        said += f"; {needed}"
    return Line(said, "measured", one.run_ids)


def _words(one: Measured) -> str:
    if one.speedup is None:
        return "not comparable with the baseline"
    interval = "" if one.low is None or one.high is None else f" (95 % interval {one.low:.2f} to {one.high:.2f})"
    verdicts = {
        "faster": "faster than the baseline",
        "slower": "slower than the baseline",
        "no difference": "no different from the baseline",
        "not enough data": "not surely different from the baseline",
    }
    return f"{verdicts[one.outcome]}: {one.speedup:.2f} times its throughput{interval}"


def _prediction(one: Measured) -> Iterator[Line]:
    """What its acceptance length allows when drafting is free, beside what was seen."""
    if one.acceptance_length is None or one.speedup is None:
        return
    most = theory.speedup_of_length(one.acceptance_length, one.gamma, draft_cost=0.0)
    cost = theory.implied_draft_cost(one.speedup, one.acceptance_length, one.gamma)
    said = f"{one.acceptance_length:.2f} tokens a round allow up to {most:.2f} times, were drafting free"
    if cost is not None and one.speedup < _FAR_BELOW * most:
        said += (
            f"; the rest went into drafting and verifying, as if each drafted token cost {cost:.2f} of a target step"
        )
    yield Line(said, "expected", one.run_ids)


def _tuning(one: Measured) -> Iterator[Line]:
    """The tuning procedure: how many tokens to try next."""
    rate = one.acceptance_rate
    if rate is None:
        return
    if rate > _HIGH_RATE and one.gamma <= FIRST_GAMMA:
        yield Line(
            f"{rate:.0%} of {one.arm}'s drafted tokens are accepted, over {_HIGH_RATE:.0%}: try 4 to 5 drafted tokens",
            "rule of thumb",
            one.run_ids,
        )
    elif rate < _LOW_RATE:
        instead = "drop to 2 drafted tokens or change the draft model" if one.gamma > 2 else "change the draft model"
        yield Line(
            f"{rate:.0%} of {one.arm}'s drafted tokens are accepted, under {_LOW_RATE:.0%}: {instead}",
            "rule of thumb",
            one.run_ids,
        )


def _checklist(one: Measured) -> Iterator[Line]:
    """The checklist of practice, as far as the runs say something about it."""
    if one.concurrency > _MANY_CONCURRENT:
        yield _thumb(f"concurrency {one.concurrency}, over {_MANY_CONCURRENT}: likely counterproductive")
    elif one.concurrency < _FEW_CONCURRENT:
        yield _thumb(f"concurrency {one.concurrency}, under {_FEW_CONCURRENT}: a strong candidate")
    if one.output_tokens is not None and one.output_tokens < _SHORT_OUTPUT_TOKENS:
        yield _thumb(f"answers of {one.output_tokens:.0f} tokens, under {_SHORT_OUTPUT_TOKENS}: marginal")
    elif one.output_tokens is not None and one.output_tokens > _LONG_OUTPUT_TOKENS:
        yield _thumb(f"answers of {one.output_tokens:.0f} tokens, over {_LONG_OUTPUT_TOKENS}: long enough")
    alpha = None if one.acceptance_length is None else theory.alpha_of(one.acceptance_length, one.gamma)
    if alpha is not None and alpha < _LOW_ALPHA:
        yield _thumb(f"acceptance of {alpha:.2f} a token, under {_LOW_ALPHA}: seldom worth it")
    elif alpha is not None and alpha > _HIGH_ALPHA:
        yield _thumb(f"acceptance of {alpha:.2f} a token, over {_HIGH_ALPHA}: meaningful gains")


def _thumb(text: str) -> Line:
    return Line(text, "rule of thumb")
