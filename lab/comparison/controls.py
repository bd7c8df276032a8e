"""Controls in words: arms that are identical to the baseline, whose differences are the noise of a study's runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.comparison.compare import CONFIDENCE, Comparison
from lab.comparison.verdict import Verdict


@dataclass(frozen=True)
class Control:
    """An arm that is identical to the baseline. `is_alarming`: in some cell the two differ by more than chance."""

    arm: str
    sentence: str
    is_alarming: bool


def control(arm: str, cells: Sequence[tuple[Comparison, Verdict]], confidence: float = CONFIDENCE) -> Control:
    return Control(arm, control_sentence(cells, confidence), bool(_alarming(cells, confidence)))


def _alarming(cells: Sequence[tuple[Comparison, Verdict]], confidence: float) -> int:
    """How many of the cells differ by more than chance."""
    return sum(verdict.p_differs is not None and verdict.p_differs <= 1 - confidence for _, verdict in cells)


def control_sentence(cells: Sequence[tuple[Comparison, Verdict]], confidence: float = CONFIDENCE) -> str:
    """Say of a control's cells, as judged by `verdicts`, how far they differ and whether that is more than chance.

    For example `identical to the baseline: differs by 1.3 %, as runs of this study do`.
    """
    percents = [100 * abs(cell.ratio.value - 1) for cell, _ in cells if cell.ratio is not None]
    if not percents:
        return "identical to the baseline, and not measured beside it"
    low, high = f"{min(percents):.1f}", f"{max(percents):.1f}"
    differs = f"differs by {low if low == high else f'{low} to {high}'} %"
    if all(verdict.p_differs is None for _, verdict in cells):
        return f"identical to the baseline: {differs}; how much runs of this study differ is not known yet"
    if more := _alarming(cells, confidence):
        where = f" in {more} of {len(percents)} cells" if len(percents) > 1 else ""
        return (
            f"identical to the baseline, and yet {differs}: more than runs of this study do{where}, so something "
            "besides the arms changes its figures; look at the checks, and at what else ran on the machine"
        )
    return f"identical to the baseline: {differs}, as runs of this study do"
