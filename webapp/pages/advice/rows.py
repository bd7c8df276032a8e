"""The rows of the Advice page: frames from the objects of `lab.advice` and `lab.advice.prediction`. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lab.advice import Advice, Measured
from lab.advice.prediction import Prediction

_RUNS = [
    *("arm", "workload", "pattern", "concurrency", "k", "alpha", "break_even_alpha"),
    *("predicted_length", "length", "predicted_speedup", "speedup", "draft_cost", "draft_cost_from"),
    *("implied_draft_cost", "best_k", "run_id"),
]


def runs(found: Sequence[Prediction]) -> pd.DataFrame:
    """One row a run: what was predicted for it beside what it measured; NaN is unknown."""
    rows = [
        {
            "arm": each.run.arm,
            "workload": each.run.workload,
            "pattern": each.run.pattern,
            "concurrency": each.run.concurrency,
            "k": each.run.gamma,
            "alpha": each.alpha,
            "break_even_alpha": each.break_even_alpha,
            "predicted_length": each.predicted_length,
            "length": each.run.acceptance_length,
            "predicted_speedup": each.predicted_speedup,
            "speedup": each.run.speedup,
            "draft_cost": each.draft_cost,
            "draft_cost_from": each.draft_cost_from,
            "implied_draft_cost": each.implied_draft_cost,
            "best_k": each.best_gamma,
            "run_id": each.run.run_id,
        }
        for each in found
    ]
    figures = [name for name in _RUNS if name.endswith(("alpha", "length", "speedup", "cost"))]
    return pd.DataFrame(rows, columns=_RUNS).astype(dict.fromkeys([*figures, "best_k"], float))


def against(rows: pd.DataFrame, predicted: str, measured: str) -> pd.DataFrame:
    """The runs of which both are known, as `predicted` and `measured`."""
    known = rows[rows[predicted].notna() & rows[measured].notna()]
    about = known[["arm", "workload", "pattern", "concurrency", "run_id"]]
    return about.assign(predicted=known[predicted], measured=known[measured])


def verdicts(advice: Sequence[Advice], measured: Sequence[Measured]) -> pd.DataFrame:
    """workload, pattern, concurrency, action, arm, k, speedup, low, high: one row a place; of its own arm."""
    figures = {(one.workload, one.concurrency, one.pattern, one.arm): one for one in measured}
    rows = []
    for each in advice:
        one = figures.get((each.workload, each.concurrency, each.pattern, each.arm or ""))
        rows.append(
            {
                "workload": each.workload,
                "pattern": each.pattern,
                "concurrency": each.concurrency,
                "action": each.action,
                "arm": each.arm,
                "k": each.gamma,
                "speedup": one.speedup if one else None,
                "low": one.low if one else None,
                "high": one.high if one else None,
            }
        )
    columns = ["workload", "pattern", "concurrency", "action", "arm", "k", "speedup", "low", "high"]
    return pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(("k", "speedup", "low", "high"), float))


def checklist(advice: Sequence[Advice]) -> pd.DataFrame:
    """says, places, where: each rule of thumb that applies, and to how many of the places."""
    found: dict[str, list[str]] = {}
    for each in advice:
        for line in each.reasons:
            if line.basis == "rule of thumb":
                found.setdefault(line.text, []).append(f"{each.workload} {each.pattern}".strip())
    rows = [
        {"says": text, "places": len(set(where)), "where": ", ".join(dict.fromkeys(where))}
        for text, where in found.items()
    ]
    return pd.DataFrame(rows, columns=["says", "places", "where"]).sort_values("places", ascending=False, kind="stable")
