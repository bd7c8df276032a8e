"""Controls in words: arms that are identical to the baseline, whose differences are the noise of a study's runs."""

from __future__ import annotations

from collections.abc import Sequence

from lab.comparison.compare import CONFIDENCE, Comparison
from lab.comparison.verdict import Verdict


def control_sentence(cells: Sequence[tuple[Comparison, Verdict]], confidence: float = CONFIDENCE) -> str:
    """Say of a control's cells, as judged by `verdicts`, how far they differ and whether that is more than chance.

    For example `identical to the baseline: differs by 1.3 %, as runs of this study do`.
    """
    percents = [100 * abs(cell.ratio.value - 1) for cell, _ in cells if cell.ratio is not None]
    p_values = [verdict.p_differs for _, verdict in cells if verdict.p_differs is not None]
    if not percents:
        return "identical to the baseline, and not measured beside it"
    low, high = f"{min(percents):.1f}", f"{max(percents):.1f}"
    differs = f"differs by {low if low == high else f'{low} to {high}'} %"
    if not p_values:
        return f"identical to the baseline: {differs}; how much runs of this study differ is not known yet"
    if more := sum(p <= 1 - confidence for p in p_values):
        where = f" in {more} of {len(percents)} cells" if len(percents) > 1 else ""
        return (
            f"identical to the baseline, and yet {differs}: more than runs of this study do{where}, so something "
            "besides the arms changes its figures; look at the checks, and at what else ran on the machine"
        )
    return f"identical to the baseline: {differs}, as runs of this study do"
