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
#: Below this share of distinct n-grams, most of the text is repetition. docs/comparison.md has figures.
LEAST_DISTINCT_SHARE = 0.3
#: So many texts and characters are judged together: the number of a text takes 10 of 64 bits, an n-gram's hash 53.
_MOST_TEXTS, _TEXT_BITS = 1024, 10
_MOST_CHARACTERS = 2**18
#: A third of the n-grams is enough to see that a text is healthy. There are this many cells for each, so few share
#: one.
_EVERY, _CELLS = 3, 16
#: Odd numbers of 64 bits with ones and zeros well mixed, from MurmurHash3 and SplitMix64.
_MIX = (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53), np.uint64(0x9E3779B97F4A7C15))

Words = NDArray[np.uint64]


def degenerate(texts: Sequence[str] | pa.ChunkedArray[Any]) -> NDArray[np.bool_]:
    """Whether each of the texts that are long enough to judge, or its second half alone, mostly repeats itself.

    The second half is checked too, because a loop often begins after a healthy start and then never ends.
    """
    column = _column(texts)
    lengths = _lengths(column)
    doubtful = np.ones(lengths.size, dtype=np.bool_)
    for block, part in _parts(column, lengths):
        doubtful[block] = ~_surely_varied(part, lengths[block])
    wholes, halves = distinct_shares(column.filter(pa.array(doubtful)))
    is_degenerate = np.zeros(lengths.size, dtype=np.bool_)
    is_degenerate[doubtful] = np.fmin(wholes, halves) < LEAST_DISTINCT_SHARE
    return is_degenerate[lengths >= LEAST_CHARACTERS]


def distinct_shares(
    texts: Sequence[str] | pa.ChunkedArray[Any],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the share of distinct character 16-grams, above 0 to 1, of each text and of its second half.

    NaN for a text, or a half, that is too short to judge.
    """
    column = _column(texts)
    lengths = _lengths(column)
    wholes, halves = np.full(lengths.size, np.nan), np.full(lengths.size, np.nan)
    for block, part in _parts(column, lengths):
        wholes[block], halves[block] = _shares(part, lengths[block])
    return wholes, halves


def _column(texts: Sequence[str] | pa.ChunkedArray[Any]) -> pa.ChunkedArray[Any]:
    return texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([pa.array(texts, type=pa.string())])


def _lengths(column: pa.ChunkedArray[Any]) -> NDArray[np.int64]:
    lengths: NDArray[np.int64] = pc.utf8_length(column).to_numpy().astype(np.int64)
    return lengths


def _parts(column: pa.ChunkedArray[Any], lengths: NDArray[np.int64]) -> Iterator[tuple[slice, pa.ChunkedArray[Any]]]:
    for block in _blocks(lengths):
        yield block, column.slice(block.start, block.stop - block.start)


def _blocks(lengths: NDArray[np.int64]) -> Iterator[slice]:
    """Divide texts so that each block has few enough of them and, unless it is a single one, of their characters."""
    start, reached = 0, np.cumsum(lengths)
    while start < lengths.size:
        most = reached[start] - lengths[start] + _MOST_CHARACTERS
        end = int(np.searchsorted(reached, most, side="right"))
        yield slice(start, start := min(max(end, start + 1), start + _MOST_TEXTS))


def _surely_varied(texts: pa.ChunkedArray[Any], lengths: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which texts are not degenerate by a third of their n-grams alone: these have enough distinct ones among them.

    They are counted by the cells of a table that they fall into. N-grams in one cell, or with the same first 16 bytes,
    count once, so there are at least as many distinct ones as filled cells. Most text is healthy, and ordering all of
    its n-grams takes four times as long.
    """
    listed: list[Any] = texts.to_pylist()
    content = np.frombuffer("".join(listed).encode(), dtype=np.uint8)
    grams = np.maximum(lengths - GRAM_CHARACTERS + 1, 0)
    sampled = -(-grams // _EVERY)
    if not sampled.any():
        return np.zeros(lengths.size, dtype=np.bool_)
    within = _EVERY * (np.arange(sampled.sum()) - np.repeat(np.cumsum(sampled) - sampled, sampled))
    places = within + np.repeat(np.cumsum(lengths) - lengths, sampled)
    if content.size > lengths.sum():  # some characters have several bytes, of which all but the first begin with 10
        places = np.flatnonzero(content & 0xC0 != 0x80)[places]
    cells = _CELLS * sampled + 1
    begins = np.cumsum(cells) - cells
    chosen = np.repeat(begins, sampled) + _below(np.repeat(cells, sampled), _byte_hashes(content, places))
    is_last = _are_last(chosen, int(cells.sum()))
    in_half = within >= np.repeat(lengths // 2, sampled)  # the later ones of a text, so also the last of their cells
    of_half = np.maximum(lengths - lengths // 2 - GRAM_CHARACTERS + 1, 0)
    enough, enough_in_half = LEAST_DISTINCT_SHARE * grams, LEAST_DISTINCT_SHARE * of_half
    is_varied: NDArray[np.bool_] = _counts(is_last, sampled) >= enough
    is_varied &= _counts(is_last & in_half, sampled) >= enough_in_half
    return is_varied


def _byte_hashes(content: NDArray[np.uint8], places: NDArray[np.int64]) -> Words:
    """A hash of 32 bits of the 16 bytes from each place on."""
    # Of 8 bytes from every byte on: `take` gathers them in a fifth of the time that rows of 16 bytes need.
    from_each: Any = np.lib.stride_tricks.sliding_window_view(content, 8).view(np.uint64)[:, 0]
    first, second = from_each.take(places), from_each.take(places + 8)
    mixed = first * _MIX[0] ^ (second ^ second >> np.uint64(29)) * _MIX[1]
    hashes: Words = (mixed ^ mixed >> np.uint64(32)) * _MIX[2] >> np.uint64(32)
    return hashes


def _below(sizes: NDArray[np.int64], hashes: Words) -> NDArray[np.int64]:
    """A number below each size, from a hash of 32 bits."""
    return (hashes * sizes.astype(np.uint64) >> np.uint64(32)).astype(np.int64)


def _are_last(chosen: NDArray[np.int64], cells: int) -> NDArray[np.bool_]:
    """Whether each is the last one to choose its cell: as many as there are filled cells."""
    numbers = np.arange(chosen.size, dtype=np.int32)
    table = np.empty(cells, dtype=np.int32)  # cells that nobody chose are never read
    table[chosen] = numbers  # of several numbers for a cell, the last one stays
    is_last: NDArray[np.bool_] = table[chosen] == numbers
    return is_last


def _counts(are: NDArray[np.bool_], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many are true of each text, which has so many of them."""
    counts = np.zeros(sizes.size, dtype=np.int64)
    filled = sizes > 0
    counts[filled] = np.add.reduceat(are, (np.cumsum(sizes) - sizes)[filled], dtype=np.int64)
    return counts


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
