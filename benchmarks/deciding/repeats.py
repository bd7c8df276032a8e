"""Part repeats: how many repeats a study needs, by the noise of its runs and the size of the effect.

The same simulated tables and the same verdicts as in part power, of 12 cells. No processor time is part of any figure.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.deciding.power import RULES, cells_called, tables_of
from host.settings import Settings

TABLES = 60
CELLS, _WANTED, _SEED = 12, 0.80, 20261122
_NOISES, _RATIOS = (0.01, 0.02, 0.03, 0.05, 0.10), (1.05, 1.10, 1.20, 1.50, 2.00)
_REPEATS = (2, 3, 4, 5, 6, 8, 10, 12, 16)


def run(_settings: Settings, _repeats: int, tables: int = TABLES) -> None:
    """Simulate and print a table in Markdown."""
    print(f"repeats by which {_WANTED:.0%} of the true effects are called, {CELLS} cells")
    print("| noise of a run | " + " | ".join(f"{ratio:.2f}x" for ratio in _RATIOS) + " |")
    print("|" + "---|" * (len(_RATIOS) + 1))
    for noise in _NOISES:
        needed = [repeats_needed(noise, ratio, tables) for ratio in _RATIOS]
        words = [f"over {_REPEATS[-1]}" if repeats is None else str(repeats) for repeats in needed]
        print(f"| {noise:.0%} | " + " | ".join(words) + " |", flush=True)


def repeats_needed(noise: float, ratio: float, tables: int, tried: Sequence[int] = _REPEATS) -> int | None:
    """Return the fewest repeats of those tried that call the wanted share of effects, or None if none does."""
    for repeats in tried:
        rng = np.random.default_rng(_SEED)
        shares = [
            cells_called(RULES["Drafthouse"], table)
            for table in tables_of(rng, tables, cells=CELLS, repeats=repeats, ratio=ratio, noise=noise)
        ]
        if np.mean(shares) >= _WANTED:
            return repeats
    return None
