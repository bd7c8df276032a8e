"""The cards that summarise one study, from the frames of `warehouse.queries.results`."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd

from webapp.shared.cards import Card
from webapp.shared.text import count, span, times


def best_cell(speedups: pd.DataFrame, *, higher_is_better: bool = True) -> pd.Series | None:
    """The candidate's row with the best ratio to the baseline, or None if nothing can be compared."""
    candidates = speedups[~speedups["is_baseline"] & speedups["ratio"].notna()]
    if candidates.empty:
        return None
    return candidates.sort_values("ratio", ascending=not higher_is_better).iloc[0]


def crossing(frame: pd.DataFrame) -> tuple[int, int, float] | None:
    """Where one arm's ratio first falls to 1 or below as concurrency grows: (last above, first below, estimate).

    `frame` has one arm's rows of one category. The estimate is a straight line between the two measured points in
    log2(ratio) over log2(concurrency). None where the arm stays on one side of 1.
    """
    rows = frame.sort_values("concurrency")[["concurrency", "ratio"]].dropna()
    points = list(rows.itertuples(index=False, name=None))
    for (left, above), (right, below) in pairwise(points):
        if above > 1 >= below:
            share = math.log2(above) / (math.log2(above) - math.log2(below))
            estimate = 2 ** (math.log2(left) + share * (math.log2(right) - math.log2(left)))
            return int(left), int(right), estimate
    return None


def best_card(best: pd.Series | None, noun: str) -> Card:
    if best is None:
        return Card(f"Best {noun}", "–", "Needs the baseline and another arm at the same load.")
    where = f"{best['arm']}, {best['category']}, concurrency {best['concurrency']}"
    ranged = span(best["ratio_min"], best["ratio_max"]) if best["paired_repeats"] > 1 else "one repeat: no range yet"
    return Card(f"Best {noun}", times(best["ratio"]), f"{where} ({ranged})")


def break_even_card(speedups: pd.DataFrame, best: pd.Series | None) -> Card:
    """The concurrency up to which the best arm pays, in the category where it is best."""
    label = "Stops paying at concurrency"
    if best is None:
        return Card(label, "–", "Needs the baseline and another arm at the same load.")
    keys = ("arm", "dataset", "category", "requested_output_tokens")
    same = [(speedups[key] == best[key]) | (speedups[key].isna() & pd.isna(best[key])) for key in keys]
    rows = speedups[np.logical_and.reduce(same)]
    who = f"{best['arm']}, {best['category']}"
    if found := crossing(rows):
        left, right, estimate = found
        return Card(label, f"{left} – {right}", f"{who}: crosses 1× near {estimate:.0f} by interpolation")
    most = int(rows["concurrency"].max())
    if (rows["ratio"].dropna() > 1).all():
        return Card(label, f"> {most}", f"{who}: pays at every concurrency measured")
    return Card(label, f"≤ {int(rows['concurrency'].min())}", f"{who}: does not pay at the lowest concurrency measured")


def runs_card(results: pd.DataFrame, planned: int | None) -> Card:
    """How many runs were measured. `planned`: the study's number of runs, if known."""
    completed = int((results["status"] == "completed").sum())
    failed = len(results) - completed
    of = f" of {planned}" if planned is not None and planned != completed else ""
    requests = int(results["requests_completed"].fillna(0).sum())
    lost = f"{count(failed, 'run')} failed" if failed else "none failed"
    return Card("Runs measured", f"{completed}{of}", f"{lost}, {count(requests, 'request')} answered")


def hardware_card(results: pd.DataFrame) -> Card:
    """The hardware, engines and targets of all runs."""
    engines = (results["engine"] + " " + results["engine_version"].fillna("")).str.strip()
    return Card("Hardware", _all_of(results["hardware"]), f"{_all_of(engines)}; target {_all_of(results['target'])}")


def _all_of(column: pd.Series) -> str:
    return ", ".join(sorted(set(column.dropna().astype(str)))) or "unknown"


def repeats_sentence(speedups: pd.DataFrame) -> str:
    """What the ranges on the page are based on."""
    repeats = sorted(set(speedups["repeats"].dropna().astype(int)))
    if not repeats or repeats == [1]:
        return "One repeat per cell: there are no ranges, and a single measurement is not a result."
    counted = f"{repeats[0]}" if len(repeats) == 1 else f"{repeats[0]} to {repeats[-1]}"
    return f"{counted} repeats per cell. Ranges are lowest to highest repeat, not confidence intervals."
