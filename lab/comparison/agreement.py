"""Whether two arms wrote the same: speculative output is meant to be the target's own, and is measured, not assumed."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy import stats

from lab.comparison.effect import Interval
from lab.repetition import is_degenerate


@dataclass(frozen=True)
class Output:
    """What one prompt got. `tokens` are ids or texts, of both arms in the same way; None where they are unknown.

    `token_count` is how many there were, where that is all that is known of them.
    """

    text: str
    tokens: Sequence[int] | Sequence[str] | None = None
    token_count: int | None = None


@dataclass(frozen=True)
class Pair:
    """The two outputs of a prompt. Positions count from 0 and are None where nothing differs, or is unknown.

    They are `same` by their tokens where both are known, else by their texts: two rows of tokens may be one text.
    One output that is the beginning of the other differs at its own length. Where tokens are unknown, the estimated one
    lies as far into the baseline's tokens as the first differing character lies into its text.
    """

    prompt_id: str
    same: bool
    first_differing_character: int | None
    first_differing_token: int | None
    estimated_first_differing_token: int | None = None


@dataclass(frozen=True)
class Agreement:
    """`same_share` has the interval of Wilson 1927 over prompts; None without a pair. Medians are of those that differ.

    That of the first differing token is None unless it is known of all of them; the estimated one is the same then.
    The degenerate shares are of the outputs that are long enough to judge; None where none is.
    """

    pairs: tuple[Pair, ...]
    same_share: Interval | None
    median_first_differing_character: float | None
    median_first_differing_token: float | None
    median_estimated_first_differing_token: float | None
    baseline_degenerate_share: float | None
    candidate_degenerate_share: float | None
    unpaired: int  # prompts that only one arm has

    @property
    def same(self) -> int:
        return sum(pair.same for pair in self.pairs)


def agreement(
    baseline: Mapping[str, Output], candidate: Mapping[str, Output], confidence: float = 0.95, *, greedy: bool = True
) -> Agreement:
    """By prompt_id. Leave out requests that failed. Outputs that are not greedy differ by chance, so none is paired."""
    common = [prompt for prompt in baseline if prompt in candidate] if greedy else []
    pairs = tuple(_pair(prompt, baseline[prompt], candidate[prompt]) for prompt in common)
    return Agreement(
        pairs,
        share(sum(pair.same for pair in pairs), len(pairs), confidence),
        _median(pair.first_differing_character for pair in pairs),
        _exact_median(pairs),
        _median(pair.estimated_first_differing_token for pair in pairs),
        degenerate_share([output.text for output in baseline.values()]),
        degenerate_share([output.text for output in candidate.values()]),
        len(baseline.keys() ^ candidate.keys()),
    )


def share(found: int, of: int, confidence: float = 0.95) -> Interval | None:
    """A share with Wilson's interval (scipy.stats.binomtest); None of nothing."""
    if not of:
        return None
    bounds = stats.binomtest(found, of).proportion_ci(confidence, method="wilson")
    return Interval(found / of, float(bounds.low), float(bounds.high))


def degenerate_share(texts: Sequence[str]) -> float | None:
    """Of the texts that are long enough to judge."""
    judged = [found for found in map(is_degenerate, texts) if found is not None]
    return sum(judged) / len(judged) if judged else None


def first_difference(one: Sequence[object], other: Sequence[object]) -> int | None:
    """The first place, from 0, at which they are not the same; None where they are equal. Both are of one type.

    By halves, because comparing slices is a hundred times as fast as comparing their members: a page waits for it.
    """
    if one == other:
        return None
    same, most = 0, min(len(one), len(other))
    while same < most:
        middle = (same + most + 1) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


def _pair(prompt_id: str, one: Output, other: Output) -> Pair:
    by_character = first_difference(one.text, other.text)
    if one.tokens is None or other.tokens is None:
        return Pair(prompt_id, by_character is None, by_character, None, _estimated_token(one, by_character))
    by_token = first_difference(one.tokens, other.tokens)
    return Pair(prompt_id, by_token is None, by_character, by_token, by_token)


def _estimated_token(output: Output, character: int | None) -> int | None:
    if character is None or output.token_count is None or not output.text:
        return None
    return character * output.token_count // len(output.text)


def _exact_median(pairs: Sequence[Pair]) -> float | None:
    places = [pair.first_differing_token for pair in pairs if not pair.same]
    return None if None in places else _median(places)


def _median(places: Iterable[int | None]) -> float | None:
    known = [place for place in places if place is not None]
    return float(statistics.median(known)) if known else None
