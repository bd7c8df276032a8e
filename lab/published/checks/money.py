"""Whether costs follow from prices and throughputs."""

from __future__ import annotations

from itertools import combinations

from lab.cost import per_million_tokens
from lab.published.checks.grouping import Figures, by_setting, figure_of, finding
from lab.published.figures import PublishedFigure, PublishedFinding

_MILLION = 1e6
_S_PER_HOUR = 3600.0


def costs(figures: Figures) -> list[PublishedFinding]:
    """Cost per million tokens = price per hour / 3600 / throughput x 10^6, for a throughput in the same setting."""
    found = []
    for group in by_setting(figures):
        cost, rate = (figure_of(group, name) for name in ("cost_per_million_output_tokens", "output_throughput"))
        if cost is None or rate is None or rate.scale != "absolute" or not rate.value:
            continue
        bounds = [per_million_tokens(cost.price_usd_per_hour, rate.value + way * rate.rounding) for way in (1, -1)]
        low, high = (None if bound is None else bound for bound in bounds)
        if low is None or high is None or low - cost.rounding <= cost.value <= high + cost.rounding:
            continue
        sentence = (
            f"{cost.printed} USD per million output tokens does not follow from {rate.printed} tok/s at "
            f"{cost.price_usd_per_hour} USD per hour, which gives {low:.2f} to {high:.2f}"
        )
        found.append(finding("costs", sentence, cost, rate))
    return found


def cost_ratios(figures: Figures) -> list[PublishedFinding]:
    """At one price per hour, costs fall as throughput rises: their ratio is that of the throughputs."""
    found = []
    every = [figure for figure in figures if figure.metric == "cost_per_million_output_tokens"]
    for one, other in combinations(every, 2):
        baseline, candidate = (one, other) if one.method == "none" else (other, one)
        same = baseline.setting[:3] == candidate.setting[:3] and baseline.dataset == candidate.dataset
        if baseline.method != "none" or candidate.method == "none" or not same or not candidate.value:
            continue
        if baseline.price_usd_per_hour != candidate.price_usd_per_hour or candidate.price_usd_per_hour is None:
            continue
        found += [
            _cost_finding(baseline, candidate, stated)
            for stated in figures
            if _is_its_throughput(stated, candidate) and not _fits(baseline, candidate, stated)
        ]
    return found


def _is_its_throughput(stated: PublishedFigure, candidate: PublishedFigure) -> bool:
    """Whether it says how the candidate's throughput compares with the baseline's, for the same text and machine."""
    same = ("source", "hardware", "engine_version", "target", "method", "dataset")
    return (
        stated.metric == "output_throughput"
        and stated.ratio_to_baseline is not None
        and all(getattr(stated, name) == getattr(candidate, name) for name in same)
    )


def _fits(baseline: PublishedFigure, candidate: PublishedFigure, stated: PublishedFigure) -> bool:
    low = (baseline.value - baseline.rounding) / (candidate.value + candidate.rounding)
    high = (baseline.value + baseline.rounding) / (candidate.value - candidate.rounding)
    ratio, off = stated.ratio_to_baseline or 0.0, stated.rounding / 100
    return low - off <= ratio <= high + off


def _cost_finding(baseline: PublishedFigure, candidate: PublishedFigure, stated: PublishedFigure) -> PublishedFinding:
    price = baseline.price_usd_per_hour or 0.0
    rates = [price / _S_PER_HOUR / figure.value * _MILLION for figure in (baseline, candidate)]
    sentence = (
        f"{baseline.printed} and {candidate.printed} USD per million output tokens at {price:g} USD per hour are "
        f"{rates[0]:.0f} and {rates[1]:.0f} tok/s, {100 * (rates[1] / rates[0] - 1):+.1f} %; the throughput on "
        f"{stated.dataset} is given as {100 * ((stated.ratio_to_baseline or 0.0) - 1):+.1f} % ({stated.load}): the two "
        f"are of different loads ({candidate.load} and {stated.load}), or do not fit"
    )
    return finding("cost_ratios", sentence, baseline, candidate, stated)
