"""Compare a study's arms with its baseline: the statistics of lab.comparison over the warehouse's runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import duckdb

from lab.comparison.agreement import Agreement, agreement
from lab.comparison.breakeven import BreakEven, Point, break_even
from lab.comparison.compare import CellRuns, compare_cells
from lab.comparison.influence import follows, mean
from lab.comparison.verdict import Control, Judged, control, verdicts
from lab.errors import QueryError
from lab.metrics.catalogue import BY_NAME, CAPACITIES, CAPACITY, SHORT_NAMES, better
from warehouse.queries.comparing import capacities, paired_runs
from warehouse.queries.comparing.paired_runs import ArmRuns, CellKey
from warehouse.queries.prices import COSTS, arm_costs

_OF_SEARCHES = tuple(metric.name for metric in CAPACITIES)
_SAMPLED = "SELECT run_id FROM runs WHERE run_id IN (SELECT unnest(?)) AND temperature > 0"


@dataclass(frozen=True)
class Pair(Judged):
    """A candidate against the baseline in one cell; the verdict is adjusted for all pairs of the study.

    A candidate that is identical to the baseline is a control: `comparison.control`.
    """

    cell: CellKey
    baseline: ArmRuns
    candidate: ArmRuns


@dataclass(frozen=True)
class StudyComparison:
    """Every candidate in every cell that it shares with the baseline."""

    jobs: tuple[str, ...]
    metric: str
    baseline: str
    pairs: tuple[Pair, ...]
    unit: str = ""
    strict: bool = False  # the reading of the verdicts: see `lab.comparison.verdict.verdicts`


def compare_study(
    con: duckdb.DuckDBPyConnection,
    study: str,
    metric: str = "output_tok_per_s",
    *,
    baseline: str | None = None,
    price_usd_per_hour: float | None = None,
    strict: bool = False,
) -> StudyComparison:
    """Compare the arms of a job, a study's digest or its name. `metric` may be one of SHORT_NAMES; a price matters only
    for costs. The short name capacity is that of a concurrency where a study has searched for that alone.

    Raises QueryError for unknown studies and arms, for metrics without a better direction, and for costs without a
    recorded price.
    """
    jobs = paired_runs.jobs_of(con, study)
    if metric == "capacity":
        metric = next(iter(capacities.searched(con, jobs)), CAPACITY.name)
    metric, names = SHORT_NAMES.get(metric, metric), (*paired_runs.metric_names(), *COSTS, *_OF_SEARCHES)
    if metric not in names:
        raise QueryError(f"{metric!r} is not a comparable metric: use one of {', '.join((*SHORT_NAMES, *names))}")
    arms, unit = _arms(con, jobs, metric, price_usd_per_hour)
    name = _baseline(arms, baseline)
    base = {runs.cell: runs for runs in arms if runs.arm == name}
    both = [(base[runs.cell], runs) for runs in arms if runs.arm != name and runs.cell in base]
    history = _history(con, jobs, metric)
    comparisons = compare_cells(
        [_cell(reference, candidate, metric) for reference, candidate in both], better(metric), history=history
    )
    judged = verdicts(comparisons, strict=strict)
    pairs = [
        Pair(comparison, verdict, candidate.cell, reference, candidate)
        for (reference, candidate), comparison, verdict in zip(both, comparisons, judged, strict=True)
    ]
    return StudyComparison(tuple(jobs), metric, name, tuple(pairs), unit, strict)


def _arms(
    con: duckdb.DuckDBPyConnection, jobs: Sequence[str], metric: str, price_usd_per_hour: float | None
) -> tuple[list[ArmRuns], str]:
    """Return the arms' runs and their unit. A cost has the noise of its rate: ln(cost) mirrors ln(rate)."""
    if metric in _OF_SEARCHES:
        return capacities.arm_capacities(con, jobs, metric, price_usd_per_hour)
    if metric in COSTS:
        return arm_costs(con, jobs, metric, price_usd_per_hour)
    return paired_runs.arm_runs(con, jobs, metric), BY_NAME[metric].unit


def _history(con: duckdb.DuckDBPyConnection, jobs: Sequence[str], metric: str) -> list[list[float]]:
    """Return earlier repeats, but none for searches, whose scatter depends on their prompts and bounds."""
    if metric in _OF_SEARCHES:
        return []
    return paired_runs.earlier_repeats(con, jobs, COSTS[metric].rate if metric in COSTS else metric)


def break_evens(comparison: StudyComparison) -> dict[tuple[str, str], BreakEven]:
    """By candidate and workload: where the gain crosses 1. Left out are controls, whose gain is 1, and those with two
    loads at one concurrency.
    """
    lines: dict[tuple[str, str], list[Point]] = {}
    for pair in comparison.pairs:
        gain = pair.gain
        if gain is not None and not pair.comparison.control:
            points = lines.setdefault((pair.candidate.arm, pair.cell.workload), [])
            points.append(Point(pair.cell.concurrency, gain))
    return {
        line: break_even(points)
        for line, points in lines.items()
        if len({point.concurrency for point in points}) == len(points) and all(p.gain.value > 0 for p in points)
    }


def controls(comparison: StudyComparison) -> dict[str, Control]:
    """Return a study's controls by arm, with how far each differs from the baseline over its cells."""
    arms: dict[str, list[Pair]] = {}
    for pair in comparison.pairs:
        arms.setdefault(pair.candidate.arm, []).append(pair)
    return {arm: control(arm, pairs) for arm, pairs in arms.items() if all(pair.comparison.control for pair in pairs)}


def agreements(con: duckdb.DuckDBPyConnection, comparison: StudyComparison) -> list[tuple[Pair, Agreement]]:
    """Return per cell how far candidate and baseline gave the same outputs; sampled ones only count degenerate ones."""
    runs = [run.run_id for pair in comparison.pairs for arm in (pair.baseline, pair.candidate) for run in arm.runs]
    sampled = {run_id for (run_id,) in con.execute(_SAMPLED, [runs]).fetchall()}
    cells = [list(pairs) for _, pairs in itertools.groupby(comparison.pairs, key=lambda pair: pair.cell)]
    return [agreement for pairs in cells for agreement in _agreements(con, pairs, sampled)]


def _agreements(
    con: duckdb.DuckDBPyConnection, pairs: Sequence[Pair], sampled: AbstractSet[str]
) -> list[tuple[Pair, Agreement]]:
    """Return the agreements of one cell's candidates, whose outputs are read in one query."""
    arms = [[run.run_id for run in arm.runs] for arm in (pairs[0].baseline, *(pair.candidate for pair in pairs))]
    ours, *theirs = paired_runs.outputs(con, arms)
    return [
        (pair, agreement(ours, outputs, greedy=sampled.isdisjoint((*arms[0], *runs))))
        for pair, outputs, runs in zip(pairs, theirs, arms[1:], strict=True)
    ]


def _cell(baseline: ArmRuns, candidate: ArmRuns, metric: str) -> CellRuns:
    how = follows(metric, closed_loop=bool(baseline.closed_loop and candidate.closed_loop))
    identical = baseline.arm_id is not None and baseline.arm_id == candidate.arm_id
    of = mean if how is None else how.influence
    return CellRuns(baseline.runs, candidate.runs, of, identical, baseline.cell.concurrency)


def _baseline(arms: Sequence[ArmRuns], requested: str | None) -> str:
    names = list(dict.fromkeys(arm.arm for arm in arms))
    declared = [arm.arm for arm in arms if arm.is_baseline]
    if requested is not None and requested not in names:
        raise QueryError(
            f"no valid run of an arm {requested!r}: the arms with valid runs are {', '.join(names) or 'none'}"
        )
    if requested is None and not declared:
        raise QueryError("the baseline has no valid run: name another baseline, or look up the reason in the findings")
    return requested if requested is not None else declared[0]
