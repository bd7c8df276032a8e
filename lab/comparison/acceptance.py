"""Acceptance of drafted tokens: pooled, by position, by category, against the latency of requests, and over time.

Over time it is a control chart of single runs (NIST/SEMATECH e-Handbook 6.3.2.2) for the same target, draft and
workload, whose limits are prediction limits, because there are few runs. The scatter of the runs sets the limits:
tokens of one text are not independent draws, so a test of two proportions would report changes that are not real.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import special

from lab.comparison.effect import CONFIDENCE, Interval
from lab.metrics.number_format import percentage

#: The false-alarm rate of three standard deviations on a control chart.
FALSE_ALARMS = 2 * float(special.ndtr(-3))
#: With fewer earlier runs, the limits are too wide to find anything.
LEAST_RUNS = 3
#: Changes of the acceptance length below 2 % do not matter in practice, however certain.
LEAST_CHANGE = 0.02
#: What a user reads beside the states.
RULE = (
    f"A run counts as changed if its acceptance length lies outside the prediction limits of the runs since the last "
    f"change (false alarms: {percentage(FALSE_ALARMS, 2)} of runs) and differs from their mean by more than "
    f"{percentage(LEAST_CHANGE)}. "
    f"With fewer than {LEAST_RUNS} earlier runs there is no verdict."
)
State = Literal["too little history", "steady", "changed"]


@dataclass(frozen=True)
class Counts:
    """Counts of one run or one request; None is unknown. `per_position` is not conditional."""

    drafts: int  # verification rounds
    draft_tokens: int | None
    accepted_tokens: int
    per_position: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Acceptance:
    """Acceptance figures; None is unknown. `length` includes the target's own token: 1 + accepted / drafts.

    `conditional[i]` is the share of rounds that accepted position i among those that accepted all before it; None if
    no round got that far. `is_estimate`: computed for a number of drafted tokens that was not measured.
    """

    drafts: int
    rate: float | None
    length: float | None
    per_position: tuple[float, ...] | None
    conditional: tuple[float | None, ...] | None
    is_estimate: bool = False


def pooled(runs: Sequence[Counts]) -> Acceptance:
    """Pool all rounds: runs weigh by drafts. Positions are unknown unless every run has the same number."""
    drafts, accepted = sum(run.drafts for run in runs), sum(run.accepted_tokens for run in runs)
    drafted_counts = [run.draft_tokens for run in runs if run.draft_tokens is not None]
    drafted = sum(drafted_counts) if len(drafted_counts) == len(runs) else None
    rates = _pooled_positions(runs)
    return Acceptance(
        drafts,
        accepted / drafted if drafted else None,
        1 + accepted / drafts if drafts else None,
        rates,
        None if rates is None else conditional(rates),
    )


def by_category(requests: Sequence[tuple[str | None, Counts]]) -> dict[str, Acceptance]:
    """Pool requests by category; those without a category are left out."""
    categories = sorted({category for category, _ in requests if category is not None})
    return {name: pooled([counts for category, counts in requests if category == name]) for name in categories}


def conditional(per_position: Sequence[float]) -> tuple[float | None, ...]:
    """Return r_i / r_(i-1), the first as it is; None after a position that no round accepted."""
    before = (1.0, *per_position[:-1])
    return tuple(rate / earlier if earlier > 0 else None for rate, earlier in zip(per_position, before, strict=True))


def with_fewer_tokens(measured: Acceptance, num_speculative_tokens: int) -> Acceptance | None:
    """Estimate the acceptance with fewer drafted tokens: 1 + the sum of the first per-position rates.

    This assumes that the first drafted tokens do not depend on how many follow: true for a chain of tokens, not for a
    tree. None if positions are unknown, or fewer were measured.
    """
    rates = measured.per_position
    if rates is None or not 1 <= num_speculative_tokens <= len(rates):
        return None
    first = rates[:num_speculative_tokens]
    return Acceptance(
        measured.drafts,
        sum(first) / len(first),
        1 + sum(first),
        first,
        conditional(first),
        is_estimate=len(first) < len(rates),
    )


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's rho with its interval; requests count as independent."""

    rho: Interval
    requests: int


def against_latency(acceptance: Sequence[float], latency_ms: Sequence[float]) -> RankCorrelation | None:
    """Correlate two lists of requests in the same order. None for fewer than 10, or if one side is constant."""
    if len(acceptance) < 10 or min(np.ptp(acceptance), np.ptp(latency_ms)) == 0:
        return None
    from scipy import stats  # noqa: PLC0415 - half a second of a processor, which most processes do without

    rho, count = float(stats.spearmanr(acceptance, latency_ms).statistic), len(acceptance)
    return RankCorrelation(_fisher(rho, count), count)


def _fisher(rho: float, count: int) -> Interval:
    """Fisher's transform with the error of Bonett & Wright 2000, doi:10.1007/BF02294183."""
    if abs(rho) >= 1:
        return Interval(rho, rho, rho)
    error = math.sqrt((1 + rho**2 / 2) / (count - 3))
    reach = float(special.ndtri((1 + CONFIDENCE) / 2)) * error
    return Interval(rho, math.tanh(math.atanh(rho) - reach), math.tanh(math.atanh(rho) + reach))


def _pooled_positions(runs: Sequence[Counts]) -> tuple[float, ...] | None:
    weighted_rates = [(run.drafts, run.per_position) for run in runs if run.per_position is not None and run.drafts]
    lengths = {len(rates) for _, rates in weighted_rates}
    if len(lengths) != 1 or len(weighted_rates) != len([run for run in runs if run.drafts]):
        return None
    weights = [drafts for drafts, _ in weighted_rates]
    return tuple(np.average([rates for _, rates in weighted_rates], axis=0, weights=weights).tolist())


@dataclass(frozen=True)
class Moment:
    """One run, judged by those before it. `low` and `high` are its prediction limits; None if there were too few."""

    run_id: str
    value: float
    state: State
    expected: float | None
    low: float | None
    high: float | None


def drift(runs: Sequence[tuple[str, float]]) -> tuple[Moment, ...]:
    """Judge each run, given as (run_id, acceptance length) oldest first, against those since the last change.

    A change begins a new history, so that later runs are judged by the new level. Rates work as well as lengths.
    """
    moments: list[Moment] = []
    history: list[float] = []
    for run_id, value in runs:
        moment = _moment(run_id, value, history)
        history = [value] if moment.state == "changed" else [*history, value]
        moments.append(moment)
    return tuple(moments)


def _moment(run_id: str, value: float, history: Sequence[float]) -> Moment:
    if len(history) < LEAST_RUNS:
        return Moment(run_id, value, "too little history", None, None, None)
    low, high = prediction_limits(history)
    expected = float(np.mean(history))
    outside = not low <= value <= high
    matters = abs(value - expected) > LEAST_CHANGE * expected
    return Moment(run_id, value, "changed" if outside and matters else "steady", expected, low, high)


def prediction_limits(history: Sequence[float]) -> tuple[float, float]:
    """Return the limits for the next value: mean +- t s sqrt(1 + 1/n), Hahn & Meeker 1991, chapter 4."""
    count = len(history)
    mean, scatter = float(np.mean(history)), float(np.std(history, ddof=1))
    reach = -float(special.stdtrit(count - 1, FALSE_ALARMS / 2)) * scatter * math.sqrt(1 + 1 / count)
    return mean - reach, mean + reach


@dataclass(frozen=True)
class MatrixCell:
    """One draft on one kind of text. `length` is the acceptance length; its bounds are None for a single prompt."""

    target: str
    arm: str
    method: str
    num_speculative_tokens: int
    category: str
    length: Interval
    prompts: int
    rounds: int


def length_over_prompts(drafts: Sequence[int], accepted: Sequence[int]) -> Interval | None:
    """Return 1 + accepted / drafts of all prompts together with its interval; None without a round."""
    rounds, tokens = np.asarray(drafts, dtype=np.float64), np.asarray(accepted, dtype=np.float64)
    if not rounds.sum():
        return None
    rate = float(tokens.sum() / rounds.sum())
    count = rounds.size
    if count < 2:
        return Interval(1 + rate, None, None)
    variance = count / (count - 1) * float(((tokens - rate * rounds) ** 2).sum()) / float(rounds.sum()) ** 2
    reach = float(special.stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * math.sqrt(variance)
    return Interval(1 + rate, max(1.0, 1 + rate - reach), 1 + rate + reach)
