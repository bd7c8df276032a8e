"""Prints ratios with their aims."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One figure of both sides, measured in pairs; the printed ratio is the median of the pairs' ratios."""

    name: str
    ours: Sequence[float]
    theirs: Sequence[float]
    aim: str

    def cells(self) -> tuple[str, ...]:
        ratios = [our / their for our, their in zip(self.ours, self.theirs, strict=True)]
        spread = f"{min(ratios):.3f} .. {max(ratios):.3f}"
        medians = (f"{statistics.median(self.ours):.2f}", f"{statistics.median(self.theirs):.2f}")
        return (self.name, *medians, f"{statistics.median(ratios):.3f}", spread, self.aim)


def show(title: str, rival: str, rows: Sequence[Row]) -> None:
    """Print the table. The load average shows whether the machine had other work."""
    head = ("", "Drafthouse", rival, "ratio", "min .. max", "aim")
    lines = [head, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    print(f"\n{title} (load average of this machine {os.getloadavg()[0]:.1f}, {os.cpu_count()} processors)")
    for name, *cells in lines:
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        print("  ".join((name.ljust(widths[0]), *numbers)))
