"""Degenerate text: a model that is forced to write past its end repeats itself.

A draft predicts a loop nearly always, so such text inflates acceptance and throughput. It is detected by the share of
distinct n-grams (distinct-n of Li et al. 2016, arXiv:1510.03055; 1 - seq-rep-n of Welleck et al. 2019,
arXiv:1908.04319). The n-grams are of characters, so that one rule holds for prose, code and languages without spaces.
"""

from __future__ import annotations

#: Characters of an n-gram: about four tokens of English, the n of seq-rep-4.
GRAM_CHARACTERS = 16
#: Shorter text is not judged: a list or a short refrain is not a loop.
LEAST_CHARACTERS = 64
#: Below this share of distinct n-grams, most of the text is repetition. See docs/comparison.md for figures.
LEAST_DISTINCT_SHARE = 0.3


def distinct_share(text: str) -> float | None:
    """Return the share of distinct character 16-grams, above 0 to 1; None for text that is too short to judge."""
    if len(text) < LEAST_CHARACTERS:
        return None
    places = len(text) - GRAM_CHARACTERS + 1
    return len({text[start : start + GRAM_CHARACTERS] for start in range(places)}) / places


def is_degenerate(text: str) -> bool | None:
    """Whether the text, or its second half alone, mostly repeats itself; None for text that is too short to judge.

    The second half is checked too, because a loop often begins after a healthy start and then never ends.
    """
    whole = distinct_share(text)
    if whole is None:
        return None
    tail = distinct_share(text[len(text) // 2 :])
    return whole < LEAST_DISTINCT_SHARE or (tail is not None and tail < LEAST_DISTINCT_SHARE)
