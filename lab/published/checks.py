"""Checks over published figures: whether they follow from each other.

Each returns findings, and an empty list where everything fits. Printed figures are rounded, so each check allows for
what rounding can have done.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, pairwise

from lab.advice.prediction import tau
from lab.cost import per_million_tokens
from lab.published.figures import PublishedFigure, PublishedFinding, TauClaim

Figures = Sequence[PublishedFigure]

_POSITION = re.compile(r"acceptance_rate_pos(\d+)")
_MILLION = 1e6
_S_PER_HOUR = 3600.0
_LENGTHS = re.compile(r"\S+ (\d+)/(\d+)")
#: With this many equal figures or more, the agreement of two machines is no coincidence.
_FEWEST_EQUAL = 2
#: Tolerance of total throughput against lengths and output throughput: prompts may be a token or two off.
_LENGTH_TOLERANCE = 0.005


def acceptance_lengths(figures: Figures) -> list[PublishedFinding]:
    """Acceptance length = 1 + k x acceptance rate, the bonus token counted."""
    findings = []
    for group in _by_setting(figures):
        length, rate = (_figure_of(group, name) for name in ("acceptance_length", "acceptance_rate"))
        if length is None or rate is None or (k := rate.num_speculative_tokens) is None:
            continue
        expected = 1 + k * rate.value / 100
        if abs(expected - length.value) > length.rounding + k * rate.rounding / 100:
            sentence = (
                f"acceptance length {length.printed} does not follow from an acceptance rate of {rate.printed} % with "
                f"{k} speculative tokens, which gives {expected:.2f}"
            )
            findings.append(_finding("acceptance_lengths", sentence, length, rate))
    return findings


def acceptance_positions(figures: Figures) -> list[PublishedFinding]:
    """Acceptance length = 1 + the sum over positions, and no position is accepted more often than the one before."""
    findings = []
    for group in _by_setting(figures):
        numbered = [(int(match[1]), figure) for figure in group if (match := _POSITION.fullmatch(figure.metric))]
        positions = [figure for _, figure in sorted(numbered, key=lambda pair: pair[0])]
        length = _figure_of(group, "acceptance_length")
        rises = [pair for pair in pairwise(positions) if pair[1].value > pair[0].value]
        for before, after in rises:
            sentence = f"{after.metric} ({after.printed} %) is above {before.metric} ({before.printed} %)"
            findings.append(_finding("acceptance_positions", f"{sentence}, which cannot be", before, after))
        if length is None or not positions:
            continue
        expected = 1 + sum(figure.value for figure in positions) / 100
        if abs(expected - length.value) > length.rounding + sum(figure.rounding for figure in positions) / 100:
            sentence = f"acceptance length {length.printed} is not 1 + the rates per position, {expected:.2f}"
            findings.append(_finding("acceptance_positions", sentence, length, *positions))
    return findings


def tau_examples(claims: Iterable[TauClaim]) -> list[PublishedFinding]:
    """Expected tokens of a round: tau = (1 - alpha^(gamma + 1)) / (1 - alpha)."""
    findings = []
    for claim in claims:
        _, _, decimals = claim.stated.partition(".")
        expected = tau(claim.alpha, claim.gamma)
        if abs(expected - float(claim.stated)) > 0.5 * 10.0 ** -len(decimals):
            sentence = (
                f"about {claim.stated} tokens a round for acceptance {claim.alpha:g} and {claim.gamma} drafted tokens "
                f"does not follow from the formula beside it, which gives {expected:.2f}"
            )
            findings.append(PublishedFinding("tau_examples", claim.source, sentence))
    return findings


def costs(figures: Figures) -> list[PublishedFinding]:
    """Cost per million tokens = price per hour / 3600 / throughput x 10^6, for a throughput in the same setting."""
    findings = []
    for group in _by_setting(figures):
        cost, rate = (_figure_of(group, name) for name in ("cost_per_million_output_tokens", "output_throughput"))
        if cost is None or rate is None or rate.scale != "absolute" or not rate.value:
            continue
        rates = (rate.value + rate.rounding, rate.value - rate.rounding)
        low, high = (per_million_tokens(cost.price_usd_per_hour, tok_per_s) for tok_per_s in rates)
        if low is None or high is None or low - cost.rounding <= cost.value <= high + cost.rounding:
            continue
        sentence = (
            f"{cost.printed} USD per million output tokens does not follow from {rate.printed} tok/s at "
            f"{cost.price_usd_per_hour} USD per hour, which gives {low:.2f} to {high:.2f}"
        )
        findings.append(_finding("costs", sentence, cost, rate))
    return findings


def cost_ratios(figures: Figures) -> list[PublishedFinding]:
    """At one price per hour, costs fall as throughput rises: their ratio is that of the throughputs."""
    findings = []
    every = [figure for figure in figures if figure.metric == "cost_per_million_output_tokens"]
    for first, second in combinations(every, 2):
        baseline, candidate = (first, second) if first.method == "none" else (second, first)
        same = baseline.setting[:3] == candidate.setting[:3] and baseline.dataset == candidate.dataset
        if baseline.method != "none" or candidate.method == "none" or not same or not candidate.value:
            continue
        if baseline.price_usd_per_hour != candidate.price_usd_per_hour or candidate.price_usd_per_hour is None:
            continue
        findings += [
            _cost_finding(baseline, candidate, stated)
            for stated in figures
            if _is_its_throughput(stated, candidate) and not _fits(baseline, candidate, stated)
        ]
    return findings


def _is_its_throughput(stated: PublishedFigure, candidate: PublishedFigure) -> bool:
    """Return whether a figure relates the candidate's throughput to the baseline's, for the same text and machine."""
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
    return _finding("cost_ratios", sentence, baseline, candidate, stated)


def identical_tables(figures: Figures) -> list[PublishedFinding]:
    """Figures of two machines that are the same to the last digit."""
    tables: dict[tuple[str, str], dict[str, dict[object, PublishedFigure]]] = defaultdict(lambda: defaultdict(dict))
    for figure in figures:
        if figure.scale == "absolute":
            tables[figure.source, figure.study][figure.hardware][figure.row, figure.metric] = figure
    findings = []
    for machines in tables.values():
        for (machine, first), (another, second) in combinations(machines.items(), 2):
            shared = first.keys() & second.keys()
            if len(shared) < _FEWEST_EQUAL or any(first[key].printed != second[key].printed for key in shared):
                continue
            equal = [figure for key, figure in first.items() if key in shared]
            sentence = f"all {len(equal)} figures of {machine} and {another} are the same to the last digit"
            findings.append(_finding("identical_tables", f"{sentence}: one of the two was not measured", *equal))
    return findings


def contradictions(figures: Figures) -> list[PublishedFinding]:
    """Two different values for the same thing."""
    groups: dict[object, list[PublishedFigure]] = defaultdict(list)
    for figure in figures:
        groups[figure.setting, figure.metric, figure.scale].append(figure)
    findings = []
    for group in groups.values():
        if len({figure.printed for figure in group}) > 1:
            values = " and ".join(figure.printed for figure in group)
            sentence = f"{group[0].metric} is {values} {group[0].unit} in the same setting"
            notes = "".join(f" ({figure.printed}: {figure.note})" for figure in group if figure.note)
            findings.append(_finding("contradictions", f"{sentence}{notes}", *group))
    return findings


def total_throughputs(figures: Figures) -> list[PublishedFinding]:
    """Total / output throughput = (input + output tokens) / output tokens, for prompts of a fixed length."""
    findings = []
    for group in _by_setting(figures):
        total, output = (_figure_of(group, name) for name in ("total_token_throughput", "output_throughput"))
        lengths = _LENGTHS.fullmatch(group[0].dataset)
        if total is None or output is None or lengths is None or not output.value:
            continue
        input_tokens, output_tokens = int(lengths[1]), int(lengths[2])
        expected = output.value * (input_tokens + output_tokens) / output_tokens
        if abs(total.value / expected - 1) > _LENGTH_TOLERANCE:
            sentence = (
                f"{total.printed} tok/s in all beside {output.printed} tok/s of output does not fit {input_tokens} "
                f"input and {output_tokens} output tokens a request, which gives {expected:.2f}: outputs were shorter, "
                "or one figure is wrong"
            )
            findings.append(_finding("total_throughputs", sentence, total, output))
    return findings


#: Every check of figures by its name.
CHECKS: dict[str, Callable[[Figures], list[PublishedFinding]]] = {
    check.__name__: check
    for check in (
        acceptance_lengths,
        acceptance_positions,
        costs,
        cost_ratios,
        identical_tables,
        contradictions,
        total_throughputs,
    )
}


def findings(figures: Figures, claims: Iterable[TauClaim] = ()) -> tuple[PublishedFinding, ...]:
    """Return the findings of all checks, in the order of the checks."""
    of_figures = [finding for check in CHECKS.values() for finding in check(figures)]
    return (*of_figures, *tau_examples(claims))


def _by_setting(figures: Figures) -> list[list[PublishedFigure]]:
    """Group the absolute figures by setting."""
    groups: dict[object, list[PublishedFigure]] = defaultdict(list)
    for figure in figures:
        if figure.scale == "absolute":
            groups[figure.setting].append(figure)
    return list(groups.values())


def _figure_of(group: Figures, metric: str) -> PublishedFigure | None:
    """Return the figure of a metric; None if there is none, or there are several that differ."""
    printed = [figure for figure in group if figure.metric == metric]
    return printed[0] if len({figure.printed for figure in printed}) == 1 else None


def _finding(check: str, sentence: str, *figures: PublishedFigure) -> PublishedFinding:
    return PublishedFinding(check, figures[0].source, sentence, figures)
