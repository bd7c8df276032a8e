"""Degenerate text: a model that is forced to write past its end repeats itself.

A draft predicts a loop nearly always, so such text inflates acceptance and throughput. It is detected by the share of
distinct n-grams (distinct-n of Li et al. 2016, arXiv:1510.03055; 1 - seq-rep-n of Welleck et al. 2019,
arXiv:1908.04319). The n-grams are of characters, so that one rule holds for prose, code and languages without spaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: Characters of an n-gram: about four tokens of English, the n of seq-rep-4. A power of two.
GRAM_CHARACTERS = 16
#: Shorter text is not judged: a list or a short refrain is not a loop.
LEAST_CHARACTERS = 64
#: Below this share of distinct n-grams, most of the text is repetition. See docs/comparison.md for figures.
LEAST_DISTINCT_SHARE = 0.3
#: So many texts and characters are judged together: the number of a text takes 10 of 64 bits, an n-gram's hash 53.
_MOST_TEXTS, _TEXT_BITS = 1024, 10
_MOST_CHARACTERS = 2**20
#: Odd numbers of 64 bits with ones and zeros well mixed, from MurmurHash3 and SplitMix64.
_MIX = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(0x9E3779B97F4A7C15))

Words = NDArray[np.uint64]


def degenerate(texts: Sequence[str] | pa.ChunkedArray[Any]) -> NDArray[np.bool_]:
    """Whether each of the texts that are long enough to judge, or its second half alone, mostly repeats itself.

    The second half is checked too, because a loop often begins after a healthy start and then never ends.
    """
    wholes, halves = distinct_shares(texts)
    judged = ~np.isnan(wholes)
    is_degenerate: NDArray[np.bool_] = np.fmin(wholes, halves)[judged] < LEAST_DISTINCT_SHARE
    return is_degenerate


def distinct_shares(
    texts: Sequence[str] | pa.ChunkedArray[Any],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the share of distinct character 16-grams, above 0 to 1, of each text and of its second half.

    NaN for a text, or a half, that is too short to judge.
    """
    column = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([pa.array(texts, type=pa.string())])
    lengths = pc.utf8_length(column).to_numpy().astype(np.int64)
    wholes, halves = np.full(lengths.size, np.nan), np.full(lengths.size, np.nan)
    for block in _blocks(lengths):
        wholes[block], halves[block] = _shares(column.slice(block.start, block.stop - block.start), lengths[block])
    return wholes, halves


def _blocks(lengths: NDArray[np.int64]) -> Iterator[slice]:
    """Divide texts so that each block has few enough of them and, unless it is a single one, of their characters."""
    start, reached = 0, np.cumsum(lengths)
    while start < lengths.size:
        most = reached[start] - lengths[start] + _MOST_CHARACTERS
        end = int(np.searchsorted(reached, most, side="right"))
        yield slice(start, start := min(max(end, start + 1), start + _MOST_TEXTS))


def _shares(texts: pa.ChunkedArray[Any], lengths: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    grams = np.maximum(lengths - GRAM_CHARACTERS + 1, 0)
    owners = np.repeat(np.arange(lengths.size, dtype=np.uint64), grams)
    starts = np.cumsum(lengths) - lengths
    within = np.arange(owners.size) - np.repeat(np.cumsum(grams) - grams, grams)  # the place of each gram in its text
    hashes = _gram_hashes(_characters(texts))[within + np.repeat(starts, grams)]
    in_half = within >= np.repeat(lengths // 2, grams)
    # Sorted by text, then by hash, then whether the gram lies in the second half.
    keys = (owners << np.uint64(64 - _TEXT_BITS)) | (hashes >> np.uint64(_TEXT_BITS + 1) << np.uint64(1)) | in_half
    keys.sort()
    places = keys >> np.uint64(1)
    distinct = np.ones(keys.size, dtype=np.bool_)
    distinct[1:] = places[1:] != places[:-1]
    in_half = (keys & np.uint64(1)).astype(np.bool_)
    distinct_in_half = in_half.copy()
    distinct_in_half[1:] &= keys[1:] != keys[:-1]
    of_half = lengths - lengths // 2
    return (
        _per_text(distinct, keys, lengths, grams),
        _per_text(distinct_in_half, keys, of_half, np.maximum(of_half - GRAM_CHARACTERS + 1, 0)),
    )


def _per_text(
    distinct: NDArray[np.bool_], keys: Words, lengths: NDArray[np.int64], grams: NDArray[np.int64]
) -> NDArray[np.float64]:
    owners = (keys[distinct] >> np.uint64(64 - _TEXT_BITS)).astype(np.int64)
    counts = np.bincount(owners, minlength=lengths.size).astype(np.float64)
    shares = np.full(lengths.size, np.nan)
    np.divide(counts, grams, out=shares, where=lengths >= LEAST_CHARACTERS)
    return shares


def _characters(texts: pa.ChunkedArray[Any]) -> Words:
    """The code points of all texts, end to end."""
    parts: list[Any] = texts.to_pylist()
    joined = "".join(parts)
    return np.frombuffer(joined.encode("utf-32-le"), dtype=np.uint32).astype(np.uint64)


def _gram_hashes(characters: Words) -> Words:
    """A hash of the 16 characters that begin at each place; those of the last places are of fewer.

    Hashes of 2, 4, 8 and 16 characters follow from those of half as many. Two different grams of one text share a hash
    once in ten thousand million texts of 500 characters.
    """
    hashes = characters * _MIX[2]
    reach = 1
    while reach < GRAM_CHARACTERS:
        later = np.zeros_like(hashes)
        later[: max(hashes.size - reach, 0)] = hashes[reach:]
        hashes = (hashes ^ (hashes >> np.uint64(29))) * _MIX[0] + (later ^ (later >> np.uint64(32))) * _MIX[1]
        reach *= 2
    return hashes ^ (hashes >> np.uint64(31))
