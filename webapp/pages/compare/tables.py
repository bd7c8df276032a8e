"""The tables of the Compare page and the rows behind its figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pandas as pd

from lab.comparison.acceptance import Acceptance, MatrixCell
from lab.comparison.breakeven import BreakEven, sentence
from lab.comparison.compare import Comparison
from lab.comparison.effect import Interval
from lab.comparison.surface import Surface
from lab.comparison.verdict import MARKS, Judged
from lab.metrics import histogram
from lab.metrics.catalogue import BY_NAME
from lab.metrics.number_format import bounds, ratio
from warehouse.queries.comparing.by_group import Metric
from warehouse.queries.comparing.comparisons import Pair
from warehouse.queries.comparing.quality import ArmQuality
from warehouse.queries.comparing.ratio_tables import ArmTable
from webapp.charts.axes import without_wide
from webapp.pages.compare import data as compare_data
from webapp.pages.compare.data import LATENCIES
from webapp.pages.compare.selection import Choice
from webapp.shared.columns import Column, columns, of_metric

_LENGTH = BY_NAME["acceptance_length"]
#: The column or row of geometric means.
MEAN = "geom. mean"
#: Points of a curve; a screen shows no more.
_MAX_POINTS = 200
PERCENTILE_RANKS = (50, 90, 95, 99)


def heat(tables: Sequence[ArmTable]) -> pd.DataFrame:
    """arm, row, column, is_mean, ratio, low, high, verdict (None of means without one), basis: one row per cell."""
    return pd.DataFrame([row for table in tables for row in _heat_rows(table)], columns=_HEAT)


_HEAT = ["arm", "row", "column", "is_mean", "ratio", "low", "high", "verdict", "basis"]


def _heat_rows(arm_table: ArmTable) -> list[dict[str, Any]]:
    table, sweep = arm_table.table, arm_table.sweep
    rows = [_cell(arm_table.arm, *place, cell) for place, cell in table.cells.items()]
    whole = _interval(sweep.ratio) | {"verdict": sweep.verdict.word, "basis": sweep.comparison.basis}
    if len(table.columns) > 1:
        sweeps = arm_table.sweeps_by_row
        means = [_mean(arm_table.arm, row, MEAN, table.gmeans_by_row[row], sweeps[row]) for row in table.rows]
        rows += [mean | whole | {"ratio": mean["ratio"]} for mean in means] if len(means) == 1 else means
    if len(table.rows) > 1:
        means = [_mean(arm_table.arm, MEAN, column, table.gmeans_by_column[column], None) for column in table.columns]
        rows += [mean | whole | {"ratio": mean["ratio"]} for mean in means] if len(means) == 1 else means
    if len(table.rows) > 1 and len(table.columns) > 1:
        rows.append(_mean(arm_table.arm, MEAN, MEAN, table.gmean, None) | whole | {"ratio": table.gmean})
    return rows


def _cell(arm: str, row: str, column: str, cell: Judged) -> dict[str, Any]:
    comparison = cell.comparison
    here = {"arm": arm, "row": row, "column": column, "is_mean": False, "verdict": cell.verdict.word}
    return here | _interval(cell.ratio) | {"basis": comparison.basis}


def _mean(arm: str, row: str, column: str, mean: float | None, sweep: Comparison | None) -> dict[str, Any]:
    """The mean of the cells' ratios; its interval is the sweep's, which counts whole repeats."""
    here = {"arm": arm, "row": row, "column": column, "is_mean": True, "verdict": None}
    within = (
        {"low": None, "high": None, "basis": ""} if sweep is None else _interval(sweep.ratio) | {"basis": sweep.basis}
    )
    return here | within | {"ratio": mean}


def _interval(ratio: Interval | None) -> dict[str, float | None]:
    if ratio is None:
        return {"ratio": None, "low": None, "high": None}
    return {"ratio": ratio.value, "low": ratio.low, "high": ratio.high}


def gains(pairs: Sequence[Pair]) -> pd.DataFrame:
    """arm, workload, pattern, concurrency, ratio, low, high, verdict, basis: one row per pair that has a ratio."""
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
    names = ["arm", "workload", "pattern", "concurrency", "ratio", "low", "high", "verdict", "basis"]
    return pd.DataFrame(rows, columns=names).astype({"ratio": float, "low": float, "high": float})


def crossings(evens: Mapping[tuple[str, str], BreakEven]) -> pd.DataFrame:
    """arm, workload, words, sure, concurrency, low, high: one row per crossing, or a single row without one."""
    rows: list[dict[str, Any]] = []
    for (arm, workload), even in evens.items():
        about = {"arm": arm, "workload": workload, "words": sentence(even), "sure": even.sure}
        rows += [about | crossing.__dict__ for crossing in even.crossings] or [about]
    names = ["arm", "workload", "words", "sure", "concurrency", "low", "high"]
    found = pd.DataFrame(rows, columns=names).astype({"concurrency": float, "low": float, "high": float})
    return without_wide(found, ("concurrency", "low", "high"))


def positions(acceptances: Mapping[str, Mapping[int, Acceptance]]) -> pd.DataFrame:
    """arm, position (from 1), acceptance, conditional (given those before), length (tokens per round with so many
    drafted tokens), is_estimate (of the length), rounds.
    """
    rows = []
    for arm, by_k in acceptances.items():
        measured = by_k[max(by_k)] if by_k else None
        if measured is None or measured.per_position is None or measured.conditional is None:
            continue
        for place, (rate, given) in enumerate(zip(measured.per_position, measured.conditional, strict=True), start=1):
            rows.append(
                {
                    "arm": arm,
                    "position": place,
                    "acceptance": rate,
                    "conditional": given,
                    "length": by_k[place].length,
                    "is_estimate": by_k[place].is_estimate,
                    "rounds": measured.drafts,
                }
            )
    names = ["arm", "position", "acceptance", "conditional", "length", "is_estimate", "rounds"]
    return pd.DataFrame(rows, columns=names).astype({"conditional": float})


#: What is drawn by turn or context: a latency, or the acceptance length.
_STEPS: Mapping[str, Metric] = {"TPOT (ms)": "tpot_mean_ms", "TTFT (ms)": "ttft_mean_ms"}
_STEP_COLUMNS = ["arm", "step", "place", "title", "value", "low", "high", "words", "requests"]


def steps(choice: Choice, grain: Literal["turn", "context"]) -> pd.DataFrame:
    """arm, step (its label), place (in order), title (what the value is), value, low, high, words (the ratio) and
    requests: every arm of the chosen workload and load.
    """
    arms = {*choice.candidates, choice.comparison.baseline}
    rows: list[dict[str, Any]] = []
    for title, metric in _STEPS.items():
        for group in compare_data.groups(choice.job_id, grain, metric, choice.comparison.baseline):
            at = group.turn if grain == "turn" else group.context_tokens
            is_here = (group.workload, group.concurrency) == (choice.workload, _concurrency(choice))
            if at is None or not is_here or group.arm not in arms:
                continue
            about = {"arm": group.arm, "step": step_label(grain, at), "place": at, "requests": group.requests}
            if metric == "tpot_mean_ms" and group.length is not None:
                length = group.length.__dict__ | {"title": f"{_LENGTH.label} (tokens per round)", "words": ""}
                rows.append(about | length)
            if group.mean_ms is not None:
                words = "" if group.ratio is None else written(group.ratio)
                rows.append(about | {"title": title, "value": group.mean_ms, "words": words})
    found = pd.DataFrame(rows, columns=_STEP_COLUMNS).astype({"low": float, "high": float})
    return found.sort_values(["title", "place"], kind="stable")


def _concurrency(choice: Choice) -> int | None:
    return next((pair.cell.concurrency for pair in choice.here), None)


def step_label(grain: str, at: int) -> str:
    """A turn, or the turns of its step; a context with its thousands."""
    if grain == "context":
        return f"{at:,}"
    return f"{at}" if at <= _EACH_TURN else f"{at}–{2 * (at - 1)}"


#: Turns after this one are taken together (`lab.metrics.groups`).
_EACH_TURN = 8


def written(interval: Interval) -> str:
    return ratio(*(math.nan if bound is None else bound for bound in (interval.value, interval.low, interval.high)))


def surface_cells(surfaces: Mapping[str, Surface]) -> pd.DataFrame:
    """arm, concurrency, context_tokens, row (its label), place, gain, low, high, figure, interval, written, length,
    needed_value and needed (the length that breaks even, alone and with its interval), word, requests.
    """
    rows = [
        {
            "arm": arm,
            "concurrency": cell.concurrency,
            "context_tokens": cell.context_tokens,
            "row": f"{cell.context_tokens:,}",
            "place": cell.context_tokens,
            "gain": cell.gain.value,
            "low": cell.gain.low,
            "high": cell.gain.high,
            "figure": f"{written(Interval(cell.gain.value, None, None))} {MARKS.get(cell.word, '')}".rstrip(),  # type: ignore[call-overload]
            "interval": _bounds(cell.gain),
            "written": written(cell.gain),
            "length": cell.length,
            "needed_value": "" if cell.needed_length is None else f"{cell.needed_length.value:.2f}",
            "needed": ""
            if cell.needed_length is None
            else f"{cell.needed_length.value:.2f} {_bounds(cell.needed_length)}".rstrip(),
            "word": cell.word,
            "requests": cell.requests,
        }
        for arm, surface in surfaces.items()
        for cell in surface.cells
    ]
    return pd.DataFrame(rows)


def surface_lines(surfaces: Mapping[str, Surface]) -> pd.DataFrame:
    """arm, row (the context's label), at, low, high: where each context crosses 1×."""
    rows = [
        {"arm": arm, "row": f"{context:,}", "at": crossing.concurrency, "low": crossing.low, "high": crossing.high}
        for arm, surface in surfaces.items()
        for context, even in surface.lines.items()
        for crossing in even.crossings
    ]
    names = ["arm", "row", "at", "low", "high"]
    found = pd.DataFrame(rows, columns=names).astype({"at": float, "low": float, "high": float})
    return without_wide(found, ("at", "low", "high"))


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
    return pd.DataFrame(rows, columns=names).astype({"low": float, "high": float})


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


def surface_table(cells: pd.DataFrame) -> pd.DataFrame:
    """`cells` as `surface_cells` gives them, for reading."""
    names = ["arm", "context_tokens", "concurrency", "gain", "low", "high", "word", "length", "needed", "requests"]
    return cells[names]


SURFACE = columns(
    *("arm", "concurrency", "requests"),
    context_tokens=Column("Context up to (tokens)", "%,d"),
    gain=Column("Gain [95 %]", "%.2f×", "Time per output token, baseline / arm: above 1 the arm is faster"),
    low={"format": "%.2f", "width": None},
    high={"format": "%.2f", "width": None},
    word=Column("Verdict"),
    length=of_metric(_LENGTH),
    needed=Column("Breaks even at length [95 %]", help="The price of a round in plain steps: length / gain"),
)


def ecdf(histograms: pd.DataFrame) -> pd.DataFrame:
    """arm, latency, value_ms, share: of `cell_queries.histograms`, at most _MAX_POINTS steps a curve."""
    curves = [
        {"arm": arm, "latency": latency, "value_ms": value, "share": share}
        for (arm, latency), counts in _counts(histograms).items()
        for value, share in zip(*histogram.cumulative(counts, _MAX_POINTS), strict=True)
    ]
    return pd.DataFrame(curves, columns=["arm", "latency", "value_ms", "share"])


def percentiles(histograms: pd.DataFrame) -> pd.DataFrame:
    """arm, latency, requests, p50 ... (ms): of the pooled requests, never averages of percentiles."""
    rows = [
        {"arm": arm, "latency": latency, "requests": sum(counts.values())}
        | {f"p{percent}": histogram.quantile(counts, percent / 100) for percent in PERCENTILE_RANKS}
        for (arm, latency), counts in _counts(histograms).items()
    ]
    return pd.DataFrame(rows, columns=["arm", "latency", "requests", *(f"p{percent}" for percent in PERCENTILE_RANKS)])


def _counts(histograms: pd.DataFrame) -> dict[tuple[str, str], dict[int, int]]:
    return {
        (str(arm), str(latency)): dict(zip(rows["bucket"].tolist(), rows["count"].tolist(), strict=True))
        for (arm, latency), rows in histograms.groupby(["arm", "latency"], sort=False)
    }


def crossings_table(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` as `crossings` gives them, with the answer of each line in words."""
    return pd.DataFrame(
        {
            "arm": rows["arm"],
            "workload": rows["workload"],
            "answer": rows["words"],
            "concurrency": rows["concurrency"],
            "low": rows["low"],
            "high": rows["high"],
            "sure": rows["sure"],
        }
    )


CROSSINGS = columns(
    *("arm", "workload"),
    answer=Column("Against the baseline", help="Concurrency: requests in flight"),
    concurrency=Column("Crosses 1× at concurrency", "%.1f"),
    low={"format": "%.1f", "help": _END, "width": None},
    high={"format": "%.1f", "help": _END, "width": None},
    sure=Column("Sure", help="Whether the intervals on both sides of the crossing exclude 1×", is_flag=True),
)


def percentiles_table(rows: pd.DataFrame) -> pd.DataFrame:
    """`rows` as `percentiles` gives them, the arms of each latency below each other."""
    order = list(LATENCIES)
    ordered = rows.sort_values("latency", key=lambda column: column.map(order.index), kind="stable")
    return ordered.assign(latency=ordered["latency"].map(LATENCIES))[["latency", "arm", *_names(), "requests"]]


def _names() -> list[str]:
    return [f"p{percent}" for percent in PERCENTILE_RANKS]


PERCENTILES = columns(
    "arm",
    pinned="latency",
    latency=Column("Latency"),
    requests={"help": "All repeats together"},
    **{name: Column(f"{name} (ms)", "%,.1f") for name in _names()},
)


def qualities(found: Sequence[ArmQuality], candidates: Sequence[str]) -> pd.DataFrame:
    """A row for each chosen candidate and workload, shares in per cent."""
    return pd.DataFrame([_quality(each) for each in found if each.arm in candidates])


def scores(found: Sequence[ArmQuality], candidates: Sequence[str]) -> pd.DataFrame:
    """The scored rows of `qualities` with the difference and its bounds as numbers, in percentage points."""
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
    """In percentage points, with the interval: `-3.0 [-5.1, -0.9]`."""
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
