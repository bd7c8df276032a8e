"""Ratios to the baseline measured earlier on a hardware; their scatter decides how many repeats a new study needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import duckdb
import numpy as np

from lab.comparison.effect import request_variance
from lab.comparison.influence import follows, mean
from lab.comparison.samples import pair
from lab.planning.components import Components, PastRatio, components
from warehouse.queries.comparing.paired_runs import ArmRuns, arm_runs

#: The newest studies say most about the machine as it is now, and a page waits for the answer.
_MOST_JOBS = 10
_JOBS = """
    SELECT job_id FROM valid_latest_runs
    WHERE origin = 'measured' AND target = coalesce($target, target)
        AND contains(lower(hardware), lower($hardware)) AND (NOT $whole OR length(hardware) = length($hardware))
    GROUP BY job_id HAVING count(DISTINCT launch_index) > 1 AND count(DISTINCT repeat) > 1
    ORDER BY max(started_at) DESC LIMIT $most
"""


def past_components(
    con: duckdb.DuckDBPyConnection, metric: str, *, target: str | None, hardware: str, whole: bool
) -> Components | None:
    """Return the components of the metric's scatter on the hardware; None if too little was measured there.

    `target` of None is any target. `hardware` is the whole name, or, unless `whole`, a part of it.
    """
    named = {"target": target, "hardware": hardware, "whole": whole, "most": _MOST_JOBS}
    ratios: list[PastRatio] = []
    requests: list[float] = []
    for (job,) in con.execute(_JOBS, named).fetchall():
        for baseline, candidate in _compared(arm_runs(con, [job], metric)):
            ratios += _ratios(job, baseline, candidate)
            if (variance := _request_variance(metric, baseline, candidate)) is not None:
                requests.append(variance)
    return components(ratios, float(np.mean(requests)) if requests else None)


def _compared(arms: Sequence[ArmRuns]) -> Iterator[tuple[ArmRuns, ArmRuns]]:
    baselines = {arm.cell: arm for arm in arms if arm.is_baseline}
    for arm in arms:
        if not arm.is_baseline and arm.cell in baselines:
            yield baselines[arm.cell], arm


def _ratios(job: str, baseline: ArmRuns, candidate: ArmRuns) -> Iterator[PastRatio]:
    """Return the ratio of each block, with the engine starts that it was measured on."""
    ours = {run.block: run for run in baseline.runs if run.value}
    for run in candidate.runs:
        base = ours.get(run.block)
        if base is not None and base.value and run.value and base.value > 0 and run.value > 0:
            cell = (job, candidate.cell, candidate.arm)
            ratio = float(np.log(run.value / base.value))
            prompts = None if run.requests is None else len(run.requests.prompts)
            yield PastRatio(cell, (base.launch, run.launch), ratio, prompts)


def _request_variance(metric: str, baseline: ArmRuns, candidate: ArmRuns) -> float | None:
    how = follows(metric, closed_loop=bool(baseline.closed_loop and candidate.closed_loop))
    apart = [[replace(run, launch=None) for run in arm.runs] for arm in (baseline, candidate)]
    return request_variance(pair(*apart), mean if how is None else how.influence)
