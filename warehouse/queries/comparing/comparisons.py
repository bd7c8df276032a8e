"""Compare a study's arms with its baseline: the statistics of lab.comparison over the warehouse's runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime

import duckdb

from lab.comparison.agreement import Agreement, agreement
from lab.comparison.breakeven import BreakEven, Point, break_even
from lab.comparison.compare import CellRuns, compare_cells
from lab.comparison.influence import follows, mean
from lab.comparison.samples import RunSample
from lab.comparison.verdict import Control, Judged, Verdict, control, verdicts
from lab.errors import QueryError
from lab.metrics.catalogue import BY_NAME, CAPACITIES, CAPACITY, SHORT_NAMES, better
from warehouse.bundles.judgements import StoredArm
from warehouse.queries.comparing import capacities, paired_runs
from warehouse.queries.comparing.paired_runs import ArmRuns, CellKey, Earlier
from warehouse.queries.comparing.stored import (
    FIRST,
    NOT_STORED,
    Judging,
    Stored,
    comparison_of,
    judgings,
    stored_answer,
    verdict_of,
)
from warehouse.queries.prices import COSTS, arm_costs

_OF_SEARCHES = tuple(metric.name for metric in CAPACITIES)
_VALUES = 'SELECT run_id, "{metric}" FROM run_metrics JOIN runs USING (run_id) WHERE list_contains(?, job_id)'
_SAMPLED = "SELECT run_id FROM runs WHERE run_id IN (SELECT unnest(?)) AND temperature > 0"


@dataclass(frozen=True)
class Pair(Judged):
    """A candidate against the baseline in one cell; the verdict is adjusted for all pairs of the study.

    `strictly` is its verdict in the strict reading, whichever `verdict` is of. A candidate that is identical to the
    baseline is a control: `comparison.control`.
    """

    cell: CellKey
    baseline: ArmRuns
    candidate: ArmRuns
    strictly: Verdict


@dataclass(frozen=True)
class StudyComparison:
    """Every candidate in every cell that it shares with the baseline."""

    jobs: tuple[str, ...]
    metric: str
    baseline: str
    pairs: tuple[Pair, ...]
    unit: str = ""
    strict: bool = False  # the reading of the verdicts: see `lab.comparison.verdict.verdicts`
    history_jobs: tuple[str, ...] = ()  # measured earlier; their scatter informed the intervals
    stored: Stored | None = None  # where the verdicts come from; None if they were computed for this question
    judged: tuple[Judging, ...] = ()  # all judgements of the job, oldest first
    values_changed: int = 0  # runs whose number is computed otherwise today than when the verdicts were stored

    @property
    def is_whole(self) -> bool:
        """Return whether it has all pairs of the stored verdicts."""
        return self.stored is not None and len(self.pairs) == len(self.stored.answer.pairs)

    @property
    def changed_because(self) -> str:
        """Say why the verdicts may be others today; empty if nothing is known to have changed."""
        if self.stored is None:
            return ""
        what = "prices" if self.metric in COSTS else "formula"
        values = f"the {what} behind the figures of {self.values_changed} of its runs changed"
        return "; ".join(filter(None, (self.stored.judging.changed_because, values if self.values_changed else "")))

    @property
    def standing(self) -> str:
        """Return a sentence with the date of the verdicts, for pages, the command and reports."""
        if self.stored is None:
            return NOT_STORED
        changed = f"; changed because: {self.changed_because}" if self.changed_because else ""
        return f"{self.stored.judging.sentence}{changed}"


def compare_study(
    con: duckdb.DuckDBPyConnection,
    study: str,
    metric: str = "output_tok_per_s",
    *,
    baseline: str | None = None,
    price_usd_per_hour: float | None = None,
    strict: bool = False,
    judgement: str | None = None,
) -> StudyComparison:
    """Compare the arms of a job, a study's digest or its name. `metric` may be one of SHORT_NAMES; a price matters only
    for costs. The short name "capacity" means a concurrency if the study searched only for concurrencies.

    Verdicts that were stored when the job ended are returned as they are, or those of another `judgement` of it, for
    its own baseline and prices. Everything else is computed.

    Raises QueryError for unknown studies, arms and judgements, for metrics without a better direction, and for costs
    without a recorded price.
    """
    jobs = paired_runs.jobs_of(con, study)
    metric, judged = known_metric(con, jobs, metric), tuple(judgings(con, jobs))
    chosen = _chosen(judged, judgement)
    stored = None if chosen is None else stored_answer(con, chosen, metric)
    if stored is not None and price_usd_per_hour is None and baseline in (None, stored.answer.baseline):
        return replace(_as_stored(con, jobs, stored, strict=strict), judged=judged)
    computed = compute_study(con, jobs, metric, baseline=baseline, price_usd_per_hour=price_usd_per_hour, strict=strict)
    return replace(computed, judged=judged)


def known_metric(con: duckdb.DuckDBPyConnection, jobs: Sequence[str], metric: str) -> str:
    """Return the name of a metric that may be a short one. Raises QueryError for one that is not comparable."""
    if metric == "capacity":
        metric = next(iter(capacities.searched(con, jobs)), CAPACITY.name)
    metric, names = SHORT_NAMES.get(metric, metric), (*paired_runs.metric_names(), *COSTS, *_OF_SEARCHES)
    if metric not in names:
        raise QueryError(f"{metric!r} is not a comparable metric: use one of {', '.join((*SHORT_NAMES, *names))}")
    return metric


def compute_study(
    con: duckdb.DuckDBPyConnection,
    jobs: Sequence[str],
    metric: str,
    *,
    baseline: str | None = None,
    price_usd_per_hour: float | None = None,
    strict: bool = False,
    history_until: datetime | None = None,
) -> StudyComparison:
    """Compare the arms of jobs now, by a `known_metric`. `history_until` is the end of the history, None when the jobs
    began. Raises QueryError as `compare_study`.
    """
    arms, unit = _arms(con, jobs, metric, price_usd_per_hour)
    name = _baseline(arms, baseline)
    base = {runs.cell: runs for runs in arms if runs.arm == name}
    both = [(base[runs.cell], runs) for runs in arms if runs.arm != name and runs.cell in base]
    earlier = _history(con, jobs, metric, history_until)
    comparisons = compare_cells(
        [_cell(reference, candidate, metric) for reference, candidate in both],
        better(metric),
        history=[cell.values for cell in earlier],
    )
    strictly = verdicts(comparisons, strict=True)
    judged = strictly if strict else verdicts(comparisons)
    pairs = [
        Pair(comparison, verdict, candidate.cell, reference, candidate, strict_verdict)
        for (reference, candidate), comparison, verdict, strict_verdict in zip(
            both, comparisons, judged, strictly, strict=True
        )
    ]
    history_jobs = tuple(dict.fromkeys(cell.job_id for cell in earlier))
    return StudyComparison(tuple(jobs), metric, name, tuple(pairs), unit, strict, history_jobs)


def _chosen(judged: Sequence[Judging], judgement: str | None) -> Judging | None:
    """Return the judgement of this id, or that made when the job ended. Raises QueryError for an unknown id."""
    if judgement in (None, FIRST):
        return next((judging for judging in judged if judging.is_default), None)
    for judging in judged:
        if judging.judgement_id == judgement:
            return judging
    known = ", ".join((FIRST, *(judging.judgement_id for judging in judged)))
    raise QueryError(f"the study has no judgement {judgement!r}: choose one of {known}")


def _as_stored(con: duckdb.DuckDBPyConnection, jobs: Sequence[str], stored: Stored, *, strict: bool) -> StudyComparison:
    answer = stored.answer
    arms = [_stored_runs(arm, values) for arm, values in zip(stored.arms, answer.values, strict=True)]
    pairs = [
        Pair(
            comparison_of(pair),
            verdict_of(pair, strict=strict),
            arms[pair.candidate].cell,
            arms[pair.baseline],
            arms[pair.candidate],
            verdict_of(pair, strict=True),
        )
        for pair in answer.pairs
    ]
    changed = _values_changed(con, jobs, answer.metric, arms)
    return StudyComparison(
        tuple(jobs),
        answer.metric,
        answer.baseline,
        tuple(pairs),
        answer.unit,
        strict,
        answer.history_jobs,
        stored,
        values_changed=changed,
    )


def _stored_runs(arm: StoredArm, values: Sequence[float | None]) -> ArmRuns:
    runs = [
        RunSample(run.run_id, arm.arm, run.block, value, launch=run.launch, until_decided=run.until_decided)
        for run, value in zip(arm.runs, values, strict=True)
    ]
    about = arm.model_dump(exclude={"workload", "pattern", "concurrency", "runs"})
    return ArmRuns(cell=CellKey(arm.workload, arm.pattern, arm.concurrency), runs=tuple(runs), **about)


def _values_changed(con: duckdb.DuckDBPyConnection, jobs: Sequence[str], metric: str, arms: Sequence[ArmRuns]) -> int:
    """Count the runs whose number is another one today, because its formula, or a price, is."""
    if metric in COSTS:
        try:
            today = {run.run_id: run.value for arm in arm_costs(con, jobs, metric, None)[0] for run in arm.runs}
        except QueryError:  # the price was withdrawn
            today = {run.run_id: None for arm in arms for run in arm.runs}
    else:
        today = dict(con.execute(_VALUES.format(metric=metric), [list(jobs)]).fetchall())
    runs = {run.run_id: run.value for arm in arms for run in arm.runs}
    return sum(run_id in today and today[run_id] != value for run_id, value in runs.items())


def _arms(
    con: duckdb.DuckDBPyConnection, jobs: Sequence[str], metric: str, price_usd_per_hour: float | None
) -> tuple[list[ArmRuns], str]:
    """Return the arms' runs and their unit. A cost has the noise of its rate: ln(cost) mirrors ln(rate)."""
    if metric in _OF_SEARCHES:
        return capacities.arm_capacities(con, jobs, metric, price_usd_per_hour)
    if metric in COSTS:
        return arm_costs(con, jobs, metric, price_usd_per_hour)
    return paired_runs.arm_runs(con, jobs, metric), BY_NAME[metric].unit


def _history(con: duckdb.DuckDBPyConnection, jobs: Sequence[str], metric: str, until: datetime | None) -> list[Earlier]:
    """Return earlier repeats, but none for searches, whose scatter depends on their prompts and bounds."""
    if metric in _OF_SEARCHES:
        return []
    return paired_runs.earlier_repeats(con, jobs, COSTS[metric].rate if metric in COSTS else metric, until)


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
