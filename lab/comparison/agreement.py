"""Whether two arms generate the same text: speculative decoding promises the target's own output; this measures it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scipy import special

from lab.comparison.effect import CONFIDENCE, Interval
from lab.repetition import degenerate


@dataclass(frozen=True)
class Output:
    """The output for one prompt. `tokens` are ids or texts, the same kind for both arms; None if unknown.

    `token_count` is their number, which may be known where the tokens are not.
    """

    text: str
    tokens: Sequence[int] | Sequence[str] | None = None
    token_count: int | None = None


@dataclass(frozen=True)
class Pair:
    """The two outputs for a prompt. Positions count from 0 and are None if nothing differs or the position is unknown.

    `same` compares tokens if both are known, else texts: different tokens may spell the same text. If one output is
    the beginning of the other, they differ at its length. If tokens are unknown, the estimated position lies as far
    into the baseline's tokens as the first differing character lies into its text.
    """

    prompt_id: str
    same: bool
    first_differing_character: int | None
    first_differing_token: int | None
    estimated_first_differing_token: int | None = None


@dataclass(frozen=True)
class Agreement:
    """How far two arms agree. `same_share` has the interval of Wilson 1927 over prompts; None without a pair.

    Medians are over the pairs that differ, and None unless they are known for all of them. The degenerate shares are
    over outputs long enough to judge; None without such outputs.
    """

    pairs: tuple[Pair, ...]
    same_share: Interval | None
    median_first_differing_token: float | None
    median_estimated_first_differing_token: float | None
    baseline_degenerate_share: float | None
    candidate_degenerate_share: float | None
    unpaired: int  # prompts that only one arm has

    @property
    def same(self) -> int:
        return sum(pair.same for pair in self.pairs)


def agreement(baseline: Mapping[str, Output], candidate: Mapping[str, Output], *, greedy: bool = True) -> Agreement:
    """Compare outputs by prompt_id; callers leave out failed requests. Sampled outputs differ by chance: no pairs."""
    common = [prompt for prompt in baseline if prompt in candidate] if greedy else []
    pairs = tuple(_pair(prompt, baseline[prompt], candidate[prompt]) for prompt in common)
    differing = [pair for pair in pairs if not pair.same]
    return Agreement(
        pairs,
        share(len(pairs) - len(differing), len(pairs)),
        _median([pair.first_differing_token for pair in differing]),
        _median([pair.estimated_first_differing_token for pair in differing]),
        degenerate_share([output.text for output in baseline.values()]),
        degenerate_share([output.text for output in candidate.values()]),
        len(baseline.keys() ^ candidate.keys()),
    )


def share(count: float, of: int) -> Interval | None:
    """Return a share with Wilson's interval (Newcombe 1998, method 3), or None for 0 of 0.

    `count` is a fraction where observations are means.
    """
    if not of:
        return None
    share, z = count / of, float(special.ndtri(0.5 + 0.5 * CONFIDENCE))
    whole = 2 * (of + z**2)
    centre, reach = (2 * of * share + z**2) / whole, z / whole * math.sqrt(4 * of * share * (1 - share) + z**2)
    return Interval(share, centre - reach if count else 0.0, centre + reach if count < of else 1.0)


def degenerate_share(texts: Sequence[str]) -> float | None:
    """Return the share of degenerate texts among those long enough to judge; None if there are none."""
    judged = degenerate(texts)
    return float(judged.mean()) if judged.size else None


def first_difference(left: Sequence[object], right: Sequence[object]) -> int | None:
    """Return the first position, from 0, at which two sequences of one type differ; None if they are equal.

    Bisects, because comparing slices is a hundred times faster than comparing members, and a page waits for it.
    """
    if left == right:
        return None
    same, most = 0, min(len(left), len(right))
    while same < most:
        middle = (same + most + 1) // 2
        if left[same:middle] == right[same:middle]:
            same = middle
        else:
            most = middle - 1
    return same


def _pair(prompt_id: str, ours: Output, theirs: Output) -> Pair:
    by_character = first_difference(ours.text, theirs.text)
    if ours.tokens is None or theirs.tokens is None:
        estimate = None
        if by_character is not None and ours.token_count is not None:
            estimate = by_character * ours.token_count // max(1, len(ours.text))
        return Pair(prompt_id, by_character is None, by_character, None, estimate)
    by_token = first_difference(ours.tokens, theirs.tokens)
    return Pair(prompt_id, by_token is None, by_character, by_token, by_token)


def _median(positions: Sequence[int | None]) -> float | None:
    """Return the median; None without a position, or if one is unknown."""
    known = [position for position in positions if position is not None]
    return float(statistics.median(known)) if known and len(known) == len(positions) else None
