"""Degenerate text: a model that is forced to write past its end repeats itself.

A draft predicts a loop nearly always, so such text inflates acceptance and throughput. It is detected by the share of
distinct n-grams (distinct-n of Li et al. 2016, arXiv:1510.03055; 1 - seq-rep-n of Welleck et al. 2019,
arXiv:1908.04319). The n-grams are of characters, so that one rule holds for prose, code and languages without spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

#: Characters of an n-gram: about four tokens of English, the n of seq-rep-4.
GRAM_CHARACTERS = 16
#: Shorter text is not judged: a list or a short refrain is not a loop.
LEAST_CHARACTERS = 64
#: Below this share of distinct n-grams, most of the text is repetition.
LEAST_DISTINCT_SHARE = 0.3
#: Every third n-gram is enough to see that a text is healthy.
_EVERY = 3
#: Places in a hash table for each n-gram that is looked at: few share one by chance.
_PLACES = 16
_FACTOR = 0x9E3779B97F4A7C15


def degenerate(texts: Iterable[str]) -> NDArray[np.bool_]:
    """Return for each text that is long enough to judge whether it, or its second half alone, mostly repeats itself.

    The second half is checked too, because a loop often begins after a healthy start and then never ends.
    """
    judged = [text for text in texts if len(text) >= LEAST_CHARACTERS]
    repeating = np.zeros(len(judged), dtype=np.bool_)
    for number in np.flatnonzero(~_plainly_healthy(judged)):
        text = judged[number]
        repeating[number] = _repeats(text) or _repeats(text[len(text) // 2 :])
    return repeating


def _repeats(text: str) -> bool:
    begins = range(len(text) - GRAM_CHARACTERS + 1)
    distinct = {text[begin : begin + GRAM_CHARACTERS] for begin in begins}
    return len(text) >= LEAST_CHARACTERS and len(distinct) / len(begins) < LEAST_DISTINCT_SHARE


def _plainly_healthy(texts: Sequence[str]) -> NDArray[np.bool_]:
    """Return which texts have enough distinct n-grams in both parts, as far as a quick look at all of them shows.

    Equal n-grams have equal hashes, and each place of the table counts once, so no count is larger than the true one.
    """
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    ends = np.cumsum(lengths)
    hashes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
    for width in (1, 2, 4, 8):  # an n-gram's hash is that of its first half, times a factor, plus that of its second
        hashes = hashes[:-width] * np.uint64(pow(_FACTOR, width, 2**64)) + hashes[width:]
    begins = np.arange(0, hashes.size, _EVERY)
    owners = np.searchsorted(ends, begins, side="right")
    within = begins + GRAM_CHARACTERS <= ends[owners]
    begins, owners = begins[within], owners[within]
    numbers = np.arange(begins.size)
    places = hashes[begins] % np.uint64(max(1, _PLACES * begins.size))
    table = np.empty(max(1, _PLACES * begins.size), dtype=np.int64)
    table[places] = numbers  # of n-grams in the same place the last one stays
    counted = table[places] == numbers
    halves = lengths - lengths // 2
    in_half = counted & (begins >= (ends - halves)[owners])
    return _enough(owners[counted], lengths) & ((halves < LEAST_CHARACTERS) | _enough(owners[in_half], halves))


def _enough(owners: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    counts = np.bincount(owners, minlength=lengths.size)
    is_enough: NDArray[np.bool_] = counts / (lengths - GRAM_CHARACTERS + 1) >= LEAST_DISTINCT_SHARE
    return is_enough
