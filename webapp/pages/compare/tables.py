"""The tables of the Compare page and the rows behind its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pandas as pd

from lab.comparison.acceptance import Acceptance, MatrixCell
from lab.comparison.breakeven import BreakEven, sentence
from lab.comparison.effect import Interval
from lab.comparison.surface import Surface
from lab.comparison.verdict import MARKS
from lab.metrics import histogram
from lab.metrics.catalogue import BY_NAME
from lab.metrics.number_format import bounds, ratio
from warehouse.queries.comparing.across_studies import AcrossStudies
from warehouse.queries.comparing.by_group import Metric
from warehouse.queries.comparing.comparisons import Pair
from warehouse.queries.comparing.quality import ArmQuality
from warehouse.queries.comparing.ratio_tables import ArmTable
from webapp.charts.axes import without_wide
from webapp.pages.compare import data as compare_data
from webapp.pages.compare.data import LATENCIES
from webapp.pages.compare.selection import Selection
from webapp.shared.tables import Column, columns, of_metric

_LENGTH = BY_NAME["acceptance_length"]
#: The column or row of geometric means.
MEAN = "geom. mean"
#: Points of a curve; a screen shows no more.
_MAX_POINTS = 200
PERCENTILE_RANKS = {f"p{percent}": percent / 100 for percent in (50, 90, 95, 99)}


def _frame(rows: Sequence[Mapping[str, Any]], names: Sequence[str], *numbers: str) -> pd.DataFrame:
    """Return a table of these columns, even without rows; `numbers`: those that may be unknown in every row."""
    return pd.DataFrame(rows, columns=list(names)).astype(dict.fromkeys(numbers, float))


def heat(tables: Sequence[ArmTable]) -> pd.DataFrame:
    """Return one row per cell: arm, row, column, is_mean, ratio, low, high, verdict (None of some means), basis."""
    names = ["arm", "row", "column", "is_mean", "ratio", "low", "high", "verdict", "basis"]
    return pd.DataFrame([row for table in tables for row in _heat_rows(table)], columns=names)


def _heat_rows(arm_table: ArmTable) -> list[dict[str, Any]]:
    """Yield the cells, then the mean of each row, of each column and of all. Means of rows and of all are over whole
    repeats, as the arms' cards have them; those of columns have no interval.
    """
    arm, table, sweep = arm_table.arm, arm_table.table, arm_table.sweep
    rows = [
        {"arm": arm, "row": row, "column": column, "is_mean": False, "verdict": cell.verdict.word}
        | (_interval(cell.ratio) | {"basis": cell.comparison.basis})
        for (row, column), cell in table.cells.items()
    ]
    of_all = _interval(sweep.ratio) | {"verdict": sweep.verdict.word, "basis": sweep.comparison.basis}
    unknown = _interval(None) | {"verdict": None, "basis": ""}

    def mean(row: str, column: str, value: float | None, within: Mapping[str, Any]) -> dict[str, Any]:
        over_repeats = within["ratio"]
        about = {"arm": arm, "row": row, "column": column, "is_mean": True, **within}
        return about | {"ratio": value if over_repeats is None else over_repeats}

    for row in table.rows if len(table.columns) > 1 else ():
        swept = arm_table.sweeps_by_row[row]
        of_row = unknown if swept is None else unknown | _interval(swept.ratio) | {"basis": swept.basis}
        rows.append(mean(row, MEAN, table.gmeans_by_row[row], of_all if len(table.rows) == 1 else of_row))
    if len(table.rows) > 1:
        within = of_all if len(table.columns) == 1 else unknown
        rows += [mean(MEAN, column, table.gmeans_by_column[column], within) for column in table.columns]
    if len(table.rows) > 1 and len(table.columns) > 1:
        rows.append(mean(MEAN, MEAN, table.gmean, of_all))
    return rows


def _interval(ratio: Interval | None) -> dict[str, float | None]:
    if ratio is None:
        return {"ratio": None, "low": None, "high": None}
    return {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}


_GAINS = ["arm", "workload", "pattern", "concurrency", "ratio", "low", "high", "verdict", "basis"]


def gains(pairs: Sequence[Pair]) -> pd.DataFrame:
    """Return one row per pair with a ratio: arm, workload, pattern, concurrency, ratio, low, high, verdict, basis."""
    rows = [
        {
            "arm": pair.candidate.arm,
            "workload": pair.cell.workload,
            "pattern": pair.cell.pattern,
            "concurrency": pair.cell.concurrency,
            **_interval(pair.ratio),
            "verdict": pair.verdict.word,
            "basis": pair.comparison.basis,
        }
        for pair in pairs
        if pair.ratio is not None
    ]
    return _frame(rows, _GAINS, "ratio", "low", "high")


def across(found: AcrossStudies) -> pd.DataFrame:
    """Return the rows of `gains` of arms of other studies, in closed loops; and panel, the baseline's workload."""
    rows = [
        {
            "arm": f"{found.names[pair.candidate.of]}{f' ({note})' if (note := pair.candidate.note) else ''}",
            "workload": pair.candidate.workload,
            "pattern": pair.load,
            "concurrency": pair.candidate.concurrency,
            **_interval(pair.ratio),
            "verdict": "none: not alternated",
            "basis": pair.basis,
            "panel": f"{pair.baseline.workload}{f' ({note})' if (note := pair.baseline.note) else ''}",
        }
        for pair in found.pairs
        if pair.ratio is not None and pair.candidate.concurrency is not None
    ]
    return _frame(rows, [*_GAINS, "panel"], "ratio", "low", "high")


def crossings(evens: Mapping[tuple[str, str], BreakEven]) -> pd.DataFrame:
    """Return one row per crossing, or one without any: arm, workload, answer, sure, concurrency, low, high."""
    rows: list[dict[str, Any]] = []
    for (arm, workload), even in evens.items():
        about = {"arm": arm, "workload": workload, "answer": sentence(even), "sure": even.sure}
        rows += [about | crossing.__dict__ for crossing in even.crossings] or [about]
    names = ["arm", "workload", "answer", "concurrency", "low", "high", "sure"]
    numbers = ("concurrency", "low", "high")
    return without_wide(_frame(rows, names, *numbers), numbers)


def positions(acceptances: Mapping[str, Mapping[int, Acceptance]]) -> pd.DataFrame:
    """Return one row per arm and position: arm, position (from 1), acceptance, conditional (given those before), length
    (tokens per round with this many drafted tokens), is_estimate (of the length), rounds.
    """
    rows = []
    for arm, by_k in acceptances.items():
        measured = by_k[max(by_k)] if by_k else None
        if measured is None or measured.per_position is None or measured.conditional is None:
            continue
        for position, (rate, given) in enumerate(
            zip(measured.per_position, measured.conditional, strict=True), start=1
        ):
            rows.append(
                {
                    "arm": arm,
                    "position": position,
                    "acceptance": rate,
                    "conditional": given,
                    "length": by_k[position].length,
                    "is_estimate": by_k[position].is_estimate,
                    "rounds": measured.drafts,
                }
            )
    names = ["arm", "position", "acceptance", "conditional", "length", "is_estimate", "rounds"]
    return _frame(rows, names, "conditional")


#: What is drawn by turn or context: a latency, or the acceptance length.
_STEPS: Mapping[str, Metric] = {"TPOT (ms)": "tpot_mean_ms", "TTFT (ms)": "ttft_mean_ms"}
_STEP_COLUMNS = ["arm", "step", "order", "title", "value", "low", "high", "words", "requests"]


def steps(selection: Selection, grain: Literal["turn", "context"]) -> pd.DataFrame:
    """Return one row per step: arm, step (its label), order, title (the name of the value), value, low, high, words
    (the ratio) and requests, for every arm of the chosen workload and load.
    """
    arms = {*selection.candidates, selection.baseline}
    here = (selection.workload, selection.load)
    rows: list[dict[str, Any]] = []
    for title, metric in _STEPS.items():
        for group in compare_data.groups(selection.job_id, grain, metric, baseline=selection.baseline):
            at = group.turn if grain == "turn" else group.context_tokens
            if at is None or (group.workload, group.pattern) != here or group.arm not in arms:
                continue
            about = {"arm": group.arm, "step": step_label(grain, at), "order": at, "requests": group.requests}
            if metric == "tpot_mean_ms" and group.length is not None:
                length = group.length.__dict__ | {"title": f"{_LENGTH.label} (tokens per round)", "words": ""}
                rows.append(about | length)
            if group.mean_ms is not None:
                words = "" if group.ratio is None else written(group.ratio)
                rows.append(about | {"title": title, "value": group.mean_ms, "words": words})
    return _frame(rows, _STEP_COLUMNS, "low", "high").sort_values(["title", "order"], kind="stable")


def step_label(grain: str, at: int) -> str:
    """Return a turn, or the turns of its step; a context with its thousands."""
    if grain == "context":
        return f"{at:,}"
    return f"{at}" if at <= _EACH_TURN else f"{at}–{2 * (at - 1)}"


#: Turns after this one are taken together (`lab.metrics.groups`).
_EACH_TURN = 8


def written(interval: Interval) -> str:
    return ratio(*(math.nan if bound is None else bound for bound in (interval.value, interval.low, interval.high)))


def surface_cells(surfaces: Mapping[str, Surface]) -> pd.DataFrame:
    """Return one row per cell: arm, concurrency, context_tokens, row (its label), order, gain, low, high, figure,
    interval, written, length, needed_value and needed (the length that breaks even, alone and with its interval), word,
    requests.
    """
    rows = [
        {
            "arm": arm,
            "concurrency": cell.concurrency,
            "context_tokens": cell.context_tokens,
            "row": f"{cell.context_tokens:,}",
            "order": cell.context_tokens,
            "gain": cell.gain.value,
            "low": cell.gain.low,
            "high": cell.gain.high,
            "figure": f"{written(Interval(cell.gain.value, None, None))} {MARKS.get(cell.word, '')}".rstrip(),  # type: ignore[call-overload]
            "interval": _bounds(cell.gain),
            "written": written(cell.gain),
            "length": cell.length,
            "needed_value": "" if (needed := cell.needed_length) is None else f"{needed.value:.2f}",
            "needed": "" if needed is None else f"{needed.value:.2f} {_bounds(needed)}".rstrip(),
            "word": cell.word,
            "requests": cell.requests,
        }
        for arm, surface in surfaces.items()
        for cell in surface.cells
    ]
    return pd.DataFrame(rows)


def surface_lines(surfaces: Mapping[str, Surface]) -> pd.DataFrame:
    """Return where each context crosses 1×: arm, row (the context's label), at, low, high."""
    rows = [
        {"arm": arm, "row": f"{context:,}", "at": crossing.concurrency, "low": crossing.low, "high": crossing.high}
        for arm, surface in surfaces.items()
        for context, even in surface.lines.items()
        for crossing in even.crossings
    ]
    numbers = ("at", "low", "high")
    return without_wide(_frame(rows, ("arm", "row", *numbers), *numbers), numbers)


def matrix(cells: Sequence[MatrixCell]) -> pd.DataFrame:
    """target, arm, k, category, length, low, high, figure, interval, prompts, rounds: one row per arm and category."""
    rows = [
        {
            "target": cell.target,
            "arm": cell.arm,
            "k": cell.num_speculative_tokens,
            "category": cell.category,
            "length": cell.length.value,
            "low": cell.length.low,
            "high": cell.length.high,
            "figure": f"{cell.length.value:.2f}",
            "interval": _bounds(cell.length),
            "prompts": cell.prompts,
            "rounds": cell.rounds,
        }
        for cell in cells
    ]
    names = ["target", "arm", "k", "category", "length", "low", "high", "figure", "interval", "prompts", "rounds"]
    return _frame(rows, names, "low", "high")


def _bounds(found: Interval) -> str:
    return bounds(found.value, found.low, found.high, decimals=2)


_END = "Empty: beyond the measured range, or no interval"
MATRIX = columns(
    *("target", "arm", "k", "category", "prompts"),
    length=of_metric(_LENGTH),
    low={"format": "%.2f", "help": "Over prompts; all turns of a session are one observation", "width": None},
    high={"format": "%.2f", "width": None},
    rounds=Column("Rounds", "%,d"),
)


#: The columns of `surface_cells` in the page's table.
SURFACE_COLUMNS = [
    *("arm", "context_tokens", "concurrency", "gain", "low", "high", "word", "length", "needed", "requests"),
]
SURFACE = columns(
    *("arm", "concurrency", "requests"),
    context_tokens=Column("Context up to (tokens)", "%,d"),
    gain=Column("Gain [95 %]", "%.2f×", "Time per output token, baseline / arm: above 1 the arm is faster"),
    low={"format": "%.2f", "width": None},
    high={"format": "%.2f", "width": None},
    word=Column("Verdict"),
    length=of_metric(_LENGTH),
    needed=Column("Breaks even at length [95 %]", help="Cost of a round in steps without speculation: length / gain"),
)


def ecdf(histograms: pd.DataFrame) -> pd.DataFrame:
    """Return curves of `cell_queries.histograms`, at most _MAX_POINTS steps each: arm, latency, value_ms, share."""
    curves = [
        {"arm": arm, "latency": latency, "value_ms": value, "share": share}
        for (arm, latency), counts in _counts(histograms).items()
        for value, share in zip(*histogram.cumulative(counts, _MAX_POINTS), strict=True)
    ]
    return pd.DataFrame(curves, columns=["arm", "latency", "value_ms", "share"])


def percentiles(histograms: pd.DataFrame) -> pd.DataFrame:
    """Return percentiles of pooled requests, never their averages: arm, latency, requests, p50 ... (ms)."""
    rows = [
        {"arm": arm, "latency": latency, "requests": sum(counts.values())}
        | {name: histogram.quantile(counts, share) for name, share in PERCENTILE_RANKS.items()}
        for (arm, latency), counts in _counts(histograms).items()
    ]
    return pd.DataFrame(rows, columns=["arm", "latency", "requests", *PERCENTILE_RANKS])


def _counts(histograms: pd.DataFrame) -> dict[tuple[str, str], dict[int, int]]:
    return {
        (str(arm), str(latency)): dict(zip(rows["bucket"].tolist(), rows["count"].tolist(), strict=True))
        for (arm, latency), rows in histograms.groupby(["arm", "latency"], sort=False)
    }


CROSSINGS = columns(
    *("arm", "workload"),
    answer=Column("Against the baseline", help="Concurrency: requests in flight"),
    concurrency=Column("Crosses 1× at concurrency", "%.1f"),
    low={"format": "%.1f", "help": _END, "width": None},
    high={"format": "%.1f", "help": _END, "width": None},
    sure=Column("Sure", help="Whether the interval of every measured gain excludes 1×", is_flag=True),
)


def percentiles_table(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` as `percentiles` gives them, the arms of each latency below each other."""
    order = list(LATENCIES)
    ordered = rows.sort_values("latency", key=lambda column: column.map(order.index), kind="stable")
    return ordered.assign(latency=ordered["latency"].map(LATENCIES))[["latency", "arm", *PERCENTILE_RANKS, "requests"]]


PERCENTILES = columns(
    "arm",
    pinned="latency",
    latency=Column("Latency"),
    requests={"help": "All repeats together"},
    **{name: Column(f"{name} (ms)", "%,.1f") for name in PERCENTILE_RANKS},
)


def qualities(found: Sequence[ArmQuality], candidates: Sequence[str]) -> pd.DataFrame:
    """Return a row for each chosen candidate and workload, shares in per cent."""
    return pd.DataFrame([_quality(each) for each in found if each.arm in candidates])


def scores(found: Sequence[ArmQuality], candidates: Sequence[str]) -> pd.DataFrame:
    """Return the scored rows of `qualities` with the difference and its bounds as numbers, in percentage points."""
    return pd.DataFrame(
        [
            _quality(each)
            | {
                "points": 100 * each.quality.difference.value,
                "low": 100 * (each.quality.difference.low or 0.0),
                "high": 100 * (each.quality.difference.high or 0.0),
            }
            for each in found
            if each.quality is not None and each.arm in candidates
        ]
    )


def _quality(found: ArmQuality) -> dict[str, object]:
    judged, sampled = found.quality, found.distribution
    return {
        "arm": found.arm,
        "workload": found.workload,
        "quality": None if judged is None else judged.word,
        "score": None if judged is None else 100 * judged.candidate,
        "baseline_score": None if judged is None else 100 * judged.baseline,
        "difference": None if judged is None else _points(judged.difference),
        "prompts": None if judged is None else judged.prompts,
        "more": None if judged is None else judged.prompts_needed,
        "sampled": None if sampled is None else "another distribution" if sampled.differs else "none found",
        "p": None if sampled is None else sampled.p,
        "power": None if sampled is None else 100 * sampled.power,
    }


def _points(difference: Interval) -> str:
    """Format a difference in percentage points, with its interval: `-3.0 [-5.1, -0.9]`."""
    ends = ", ".join(f"{100 * (bound or 0.0):+.1f}" for bound in (difference.low, difference.high))
    return f"{100 * difference.value:+.1f} [{ends}]"


QUALITIES = columns(
    *("arm", "workload", "prompts"),
    quality=Column("Answers are"),
    score=Column("Score (%)", "%.1f"),
    baseline_score=Column("Baseline (%)", "%.1f"),
    difference=Column("Difference (points) [95 %]", width="medium"),
    more=Column("Prompts needed", "%d", "About how many would decide"),
    sampled=Column("Sampled answers: difference"),
    p=Column("p", "%.3f"),
    power=Column("Power (%)", "%.0f"),
)
