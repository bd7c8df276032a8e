"""Comparisons of arms whose ratios are chosen, judged as those of a warehouse are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lab.comparison.compare import CellRuns, compare_cells
from lab.comparison.samples import Array, RunSample
from lab.comparison.verdict import verdicts
from warehouse.queries.comparing.comparisons import Pair, StudyComparison
from warehouse.queries.comparing.paired_runs import ArmRuns, CellKey

LOADS = (1, 4, 16)


def comparison(
    ratios: Mapping[str, Sequence[float]],
    *,
    repeats: int = 3,
    noise: float = 0.01,
    workloads: Sequence[str] = ("code",),
    controls: Sequence[str] = (),
    strict: bool = False,
) -> StudyComparison:
    """The ratio of each arm at each of LOADS, the same on each workload; its repeats scatter by `noise`."""
    rng = np.random.default_rng(1)
    places = [(arm, workload, place) for arm in ratios for workload in workloads for place in range(len(ratios[arm]))]
    pairs = []
    for arm, workload, place in places:
        cell = CellKey(workload, f"c{LOADS[place]}", LOADS[place])
        scatter = rng.standard_normal(repeats)
        scatter = (scatter - scatter.mean()) / scatter.std(ddof=1) if repeats > 1 else scatter * 0
        values = ratios[arm][place] * np.exp(noise * scatter)
        base, own = _arm(cell, "plain", np.ones(repeats)), _arm(cell, arm, values)
        pairs.append((base, own))
    comparisons = compare_cells(
        [CellRuns(base.runs, own.runs, control=own.arm in controls) for base, own in pairs], "higher"
    )
    judged, strictly = verdicts(comparisons, strict=strict), verdicts(comparisons, strict=True)
    made = [
        Pair(compared, verdict, own.cell, base, own, strict_verdict)
        for (base, own), compared, verdict, strict_verdict in zip(pairs, comparisons, judged, strictly, strict=True)
    ]
    return StudyComparison(("job",), "output_tok_per_s", "plain", tuple(made), "tok/s", strict)


def _arm(cell: CellKey, arm: str, values: Array) -> ArmRuns:
    runs = tuple(
        RunSample(f"{arm}-{cell.workload}-{cell.pattern}-{repeat}", arm, repeat, 100.0 * value)
        for repeat, value in enumerate(values)
    )
    k = None if arm == "plain" else 3
    method = "none" if arm == "plain" else "draft_model"
    return ArmRuns(cell, arm, arm == "plain", method, k, cell.workload, closed_loop=True, arm_id=None, runs=runs)
