"""Measures two sides alternately, and prints ratios with their aims."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Row:
    """One figure of both sides, measured in pairs; the printed ratio is the median of the pairs' ratios."""

    name: str
    ours: Sequence[float]
    theirs: Sequence[float]
    aim: str

    @classmethod
    def of(cls, name: str, figure: str, ours: Sequence[object], theirs: Sequence[object], aim: str) -> Self:
        """Make a row from this attribute of each side's figures."""
        mine, other = ([float(getattr(each, figure)) for each in side] for side in (ours, theirs))
        return cls(name, mine, other, aim)

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


def alternated(part: str, repeats: int, ours: Callable[[], T], theirs: Callable[[], T]) -> tuple[list[T], list[T]]:
    """Measure A B B A this often, so that a machine that becomes slower favours no side."""
    measured: tuple[list[T], list[T]] = ([], [])
    for repeat in range(repeats):
        print(f"{part}: repeat {repeat + 1} of {repeats}", file=sys.stderr)
        for side in (0, 1, 1, 0):
            measured[side].append((ours, theirs)[side]())
    return measured


def wall_ms(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began_s)


def least_processor_s(work: Callable[[int], object], repeats: int) -> float:
    """Return the least processor seconds of `work`, which gets the number of the repeat: other work only adds."""

    def one(repeat: int) -> float:
        began_s = time.process_time()
        work(repeat)
        return time.process_time() - began_s

    return min(map(one, range(repeats)))
