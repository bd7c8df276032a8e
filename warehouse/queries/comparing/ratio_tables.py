"""A study's ratios: of each arm in each cell, as tables, one per candidate arm, and one for a whole sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import duckdb

from lab.comparison.compare import CellRuns, Comparison
from lab.comparison.starts import StartScatter
from lab.comparison.tables import RatioTable, ratio_tables, starts_of_means, sweep
from lab.comparison.verdict import Judged, verdicts
from lab.errors import QueryError
from lab.metrics.catalogue import better
from warehouse.queries.comparing.comparisons import Pair, StudyComparison
from warehouse.queries.comparing.paired_runs import known_metric
from warehouse.queries.results import frame

if TYPE_CHECKING:
    import pandas as pd  # the ingester reads this module and does without

#: Choices for rows and columns.
SIDES = ("workload", "dataset", "category", "load", "concurrency")
_DATASETS = "SELECT run_id, dataset FROM runs WHERE run_id IN (SELECT unnest(?))"
_Key = tuple[str, str]

_CELL = ["arm", "workload", "pattern", "concurrency"]
_RATIOS = [*_CELL, "ratio", "low", "high", "verdict", "basis"]


@dataclass(frozen=True)
class ArmTable:
    """A candidate's ratios to the baseline. The sweeps are geometric means over cells, with an interval.

    `sweep` is over all cells, `sweeps_by_row` over those of a row. The verdicts of cells are corrected for the cells of
    all arms' tables, that of `sweep` for the number of arms.
    """

    arm: str
    table: RatioTable
    sweep: Judged
    sweeps_by_row: Mapping[str, Comparison]


def arm_tables(
    con: duckdb.DuckDBPyConnection, comparison: StudyComparison, rows: str = "workload", columns: str = "load"
) -> list[ArmTable]:
    """Rows and columns are two of SIDES. If several workloads and loads share one table cell, it has their sweep.

    Raises QueryError for unknown or equal sides.
    """
    if {rows, columns} - set(SIDES) or rows == columns:
        raise QueryError(f"rows {rows!r} and columns {columns!r} must be two of {', '.join(SIDES)}")
    datasets = dict(con.execute(_DATASETS, [[pair.candidate.runs[0].run_id for pair in comparison.pairs]]).fetchall())
    arms: dict[str, dict[_Key, list[Pair]]] = {}
    for pair in comparison.pairs:
        key = (_side(pair, rows, datasets), _side(pair, columns, datasets))
        arms.setdefault(pair.candidate.arm, {}).setdefault(key, []).append(pair)
    starts = _starts(comparison)
    tables = ratio_tables(
        {arm: {key: _sweep(pairs, comparison, starts) for key, pairs in cells.items()} for arm, cells in arms.items()},
        strict=comparison.strict,
    )
    if comparison.is_whole and all(len(pairs) == 1 for cells in arms.values() for pairs in cells.values()):
        judged = {arm: {key: pair for key, (pair,) in cells.items()} for arm, cells in arms.items()}
        tables = {arm: replace(table, cells=judged[arm]) for arm, table in tables.items()}
    means = arm_means(comparison)
    return [ArmTable(arm, tables[arm], means[arm], _by_row(arms[arm], tables[arm], comparison, starts)) for arm in arms]


def arm_means(comparison: StudyComparison) -> dict[str, Judged]:
    """Return each candidate over all of its cells: the geometric mean of its ratios, with what the whole study
    shows of engine starts; or its only cell.

    The verdicts are corrected for the number of arms.
    """
    if comparison.stored is not None and comparison.is_whole:
        return comparison.stored.means(strict=comparison.strict)
    arms: dict[str, list[Pair]] = {}
    for pair in comparison.pairs:
        arms.setdefault(pair.candidate.arm, []).append(pair)
    starts = _starts(comparison)
    means = {arm: _sweep(pairs, comparison, starts) for arm, pairs in arms.items()}
    judged = verdicts(list(means.values()), strict=comparison.strict)
    return {arm: Judged(mean, verdict) for (arm, mean), verdict in zip(means.items(), judged, strict=True)}


def _side(pair: Pair, name: str, datasets: Mapping[str, str]) -> str:
    candidate = pair.candidate
    values = {
        "workload": pair.cell.workload,
        "dataset": datasets[candidate.runs[0].run_id],
        "category": candidate.category or "all",
        "load": pair.cell.pattern,
        "concurrency": str(pair.cell.concurrency),
    }
    return values[name]


def _starts(comparison: StudyComparison) -> StartScatter:
    """Return how much engine starts differ, by the means over all cells of every arm."""
    arms: dict[str, list[CellRuns]] = {}
    for pair in comparison.pairs:
        arms.setdefault(pair.candidate.arm, []).append(_runs(pair))
    return starts_of_means(arms.values())


def _runs(pair: Pair) -> CellRuns:
    return CellRuns(pair.baseline.runs, pair.candidate.runs, control=pair.comparison.control)


def _sweep(pairs: Sequence[Pair], comparison: StudyComparison, starts: StartScatter) -> Comparison:
    if len(pairs) == 1:
        return pairs[0].comparison
    return sweep(
        [_runs(pair) for pair in pairs], [pair.comparison for pair in pairs], better(comparison.metric), starts
    )


def _by_row(
    cells: Mapping[_Key, Sequence[Pair]], table: RatioTable, comparison: StudyComparison, starts: StartScatter
) -> dict[str, Comparison]:
    return {
        row: _sweep([pair for key, pairs in cells.items() if key[0] == row for pair in pairs], comparison, starts)
        for row in table.rows
    }


def cell_values(con: duckdb.DuckDBPyConnection, job_id: str, metric: str) -> pd.DataFrame:
    """One row per arm and cell: arm, method, draft_model, num_speculative_tokens, is_baseline, workload, dataset,
    category, input_tokens, requested_output_tokens, pattern, concurrency, value (mean over repeats), values (of each
    repeat, first to last), repeats (with a value).

    Of valid_latest_runs. Raises QueryError for a metric that cannot be compared.
    """
    return frame(con, _VALUES.format(metric=known_metric(metric)), [job_id])


_VALUES = """
    SELECT arm, method, draft_model, num_speculative_tokens, coalesce(is_baseline, false) AS is_baseline,
        workload_label AS workload, coalesce(dataset, 'unknown') AS dataset, coalesce(category, 'all') AS category,
        input_tokens, requested_output_tokens, pattern, concurrency, avg("{metric}") AS value,
        coalesce(list("{metric}" ORDER BY repeat, started_at) FILTER ("{metric}" IS NOT NULL), []) AS values,
        count("{metric}") AS repeats
    FROM valid_latest_runs
    WHERE job_id = ? AND concurrency IS NOT NULL AND pattern IS NOT NULL -- an imported run may lack them
    GROUP BY ALL
    ORDER BY is_baseline DESC, arm, dataset, category, input_tokens, requested_output_tokens, workload, concurrency,
        pattern
"""


def with_ratios(values: pd.DataFrame, comparison: StudyComparison | None) -> pd.DataFrame:
    """Add to `cell_values`: ratio, low, high (its 95 % interval), verdict, basis (what these stand on).

    All are null for the baseline, where nothing is compared, and without a comparison.
    """
    import pandas as pd  # noqa: PLC0415 - see above

    pairs = () if comparison is None else comparison.pairs
    ratios = pd.DataFrame([_row(pair) for pair in pairs], columns=_RATIOS)
    ratios = ratios.astype({"concurrency": "int64", "ratio": float, "low": float, "high": float})
    return values.merge(ratios, how="left", on=_CELL)


def _row(pair: Pair) -> tuple[object, ...]:
    ratio = pair.ratio
    bounds = (None, None, None) if ratio is None else (ratio.value, ratio.low, ratio.high)
    cell = (pair.candidate.arm, pair.cell.workload, pair.cell.pattern, pair.cell.concurrency)
    return (*cell, *bounds, pair.verdict.word, pair.comparison.basis)
