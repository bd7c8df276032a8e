"""Whether acceptance lengths, rates and positions follow from each other, and examples from their formula."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise

from lab.advice.theory import tau
from lab.published.checks.grouping import Figures, by_setting, figure_of, finding
from lab.published.figures import PublishedFigure, PublishedFinding, TauClaim

_POSITION = re.compile(r"acceptance_rate_pos(\d+)")


def acceptance_lengths(figures: Figures) -> list[PublishedFinding]:
    """Acceptance length = 1 + k x acceptance rate, the bonus token counted."""
    found = []
    for group in by_setting(figures):
        length, rate = (figure_of(group, name) for name in ("acceptance_length", "acceptance_rate"))
        if length is None or rate is None or (k := rate.num_speculative_tokens) is None:
            continue
        expected = 1 + k * rate.value / 100
        if abs(expected - length.value) > length.rounding + k * rate.rounding / 100:
            sentence = (
                f"acceptance length {length.printed} does not follow from an acceptance rate of {rate.printed} % with "
                f"{k} speculative tokens, which gives {expected:.2f}"
            )
            found.append(finding("acceptance_lengths", sentence, length, rate))
    return found


def acceptance_positions(figures: Figures) -> list[PublishedFinding]:
    """Acceptance length = 1 + the sum over positions, and no position is accepted more often than the one before."""
    found = []
    for group in by_setting(figures):
        positions = sorted((figure for figure in group if _POSITION.fullmatch(figure.metric)), key=_position)
        length = figure_of(group, "acceptance_length")
        rises = [pair for pair in pairwise(positions) if pair[1].value > pair[0].value]
        for before, after in rises:
            sentence = f"{after.metric} ({after.printed} %) is above {before.metric} ({before.printed} %)"
            found.append(finding("acceptance_positions", f"{sentence}, which cannot be", before, after))
        if length is None or not positions:
            continue
        expected = 1 + sum(figure.value for figure in positions) / 100
        if abs(expected - length.value) > length.rounding + sum(figure.rounding for figure in positions) / 100:
            sentence = f"acceptance length {length.printed} is not 1 + the rates per position, {expected:.2f}"
            found.append(finding("acceptance_positions", sentence, length, *positions))
    return found


def _position(figure: PublishedFigure) -> int:
    return int(figure.metric.removeprefix("acceptance_rate_pos"))


def tau_examples(claims: Iterable[TauClaim]) -> list[PublishedFinding]:
    """Expected tokens of a round: tau = (1 - alpha^(gamma + 1)) / (1 - alpha)."""
    found = []
    for claim in claims:
        _, _, decimals = claim.stated.partition(".")
        expected = tau(claim.alpha, claim.gamma)
        if abs(expected - float(claim.stated)) > 0.5 * 10.0 ** -len(decimals):
            sentence = (
                f"about {claim.stated} tokens a round for acceptance {claim.alpha:g} and {claim.gamma} drafted tokens "
                f"does not follow from the formula beside it, which gives {expected:.2f}"
            )
            found.append(PublishedFinding("tau_examples", claim.source, sentence))
    return found
