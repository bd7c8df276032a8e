"""Degenerate text: a model that is forced to write past its end repeats itself.

A draft predicts a loop nearly always, so such text inflates acceptance and throughput. It is detected by the share of
distinct n-grams (distinct-n of Li et al. 2016, arXiv:1510.03055; 1 - seq-rep-n of Welleck et al. 2019,
arXiv:1908.04319). The n-grams are of characters, so that one rule holds for prose, code and languages without spaces.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

#: Characters of an n-gram: about four tokens of English, the n of seq-rep-4.
GRAM_CHARACTERS = 16
#: Shorter text is not judged: a list or a short refrain is not a loop.
LEAST_CHARACTERS = 64
#: Below this share of distinct n-grams, most of the text is repetition. docs/comparison.md has figures.
LEAST_DISTINCT_SHARE = 0.3
#: A third of the n-grams is enough to see that a text is healthy.
_EVERY = 3


def degenerate(texts: Iterable[str]) -> NDArray[np.bool_]:
    """Return for each text that is long enough to judge whether it, or its second half alone, mostly repeats itself.

    The second half is checked too, because a loop often begins after a healthy start and then never ends.
    """
    judged = [text for text in texts if len(text) >= LEAST_CHARACTERS]
    return np.array([_repeats(text) or _repeats(text[len(text) // 2 :]) for text in judged], dtype=np.bool_)


def _repeats(text: str) -> bool:
    grams = len(text) - GRAM_CHARACTERS + 1
    return len(text) >= LEAST_CHARACTERS and all(
        len({text[begin : begin + GRAM_CHARACTERS] for begin in range(0, grams, every)}) / grams < LEAST_DISTINCT_SHARE
        for every in (_EVERY, 1)
    )
