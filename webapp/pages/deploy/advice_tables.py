"""The tables of a study's advice: their rows, titles, units and formats. The figure draws rows of the same kind."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from lab.advice.advise import Advice, Measured
from lab.advice.prediction import Prediction
from webapp.shared.tables import Column, columns

SIGNS = {"enable": "▲ enable", "do not enable": "▼ do not enable", "measure this next": "? measure this next"}
_RUNS = [
    *("arm", "workload", "pattern", "concurrency", "k", "alpha", "break_even_alpha"),
    *("predicted_length", "length", "predicted_speedup", "speedup", "draft_cost", "draft_cost_from"),
    *("implied_draft_cost", "best_k", "run_id"),
]
#: Columns of a run's prediction.
_PREDICTED = (
    *("alpha", "break_even_alpha", "predicted_length", "predicted_speedup"),
    *("draft_cost", "draft_cost_from", "implied_draft_cost"),
)
_VERDICTS = ["workload", "pattern", "concurrency", "action", "arm", "k", "speedup", "low", "high"]


def runs(predictions: Sequence[Prediction]) -> pd.DataFrame:
    """Return one row per run: its prediction beside what it measured. NaN is unknown."""
    rows = [
        {
            **{name: getattr(prediction, name) for name in _PREDICTED},
            **{name: getattr(prediction.run, name) for name in ("arm", "workload", "pattern", "concurrency")},
            "k": prediction.run.gamma,
            "length": prediction.run.acceptance_length,
            "speedup": prediction.run.speedup,
            "best_k": prediction.best_gamma,
            "run_id": prediction.run.run_id,
        }
        for prediction in predictions
    ]
    numbers = [name for name in _RUNS if name.endswith(("alpha", "length", "speedup", "cost"))]
    return pd.DataFrame(rows, columns=_RUNS).astype(dict.fromkeys([*numbers, "best_k"], float))


def pairs(runs: pd.DataFrame, predicted: str, measured: str) -> pd.DataFrame:
    """Return the runs for which both columns are known, renamed to `predicted` and `measured`."""
    complete = runs[runs[predicted].notna() & runs[measured].notna()]
    about = complete[["arm", "workload", "pattern", "concurrency", "run_id"]]
    return about.assign(predicted=complete[predicted], measured=complete[measured])


def verdicts(advice: Sequence[Advice], measured: Sequence[Measured]) -> pd.DataFrame:
    """Return one row per workload and load: the action, its arm, and that arm's speed-up with its interval."""
    by_arm = {(cell.workload, cell.concurrency, cell.pattern, cell.arm): cell for cell in measured}
    rows = []
    for verdict in advice:
        figures = by_arm.get((verdict.workload, verdict.concurrency, verdict.pattern, verdict.arm or ""))
        rows.append(
            {
                "workload": verdict.workload,
                "pattern": verdict.pattern,
                "concurrency": verdict.concurrency,
                "action": verdict.action,
                "arm": verdict.arm,
                "k": verdict.gamma,
                "speedup": figures.speedup if figures else None,
                "low": figures.low if figures else None,
                "high": figures.high if figures else None,
            }
        )
    return pd.DataFrame(rows, columns=_VERDICTS).astype(dict.fromkeys(("k", "speedup", "low", "high"), float))


def checklist(advice: Sequence[Advice]) -> pd.DataFrame:
    """Return one row per rule of thumb that applies: its text, and the workloads and loads it applies to."""
    cells: dict[str, list[str]] = {}
    for verdict in advice:
        for reason in verdict.reasons:
            if reason.basis == "rule of thumb":
                cells.setdefault(reason.text, []).append(f"{verdict.workload} {verdict.pattern}".strip())
    rows = [
        {"rule": text, "cells": len(set(where)), "where": ", ".join(dict.fromkeys(where))}
        for text, where in cells.items()
    ]
    return pd.DataFrame(rows, columns=["rule", "cells", "where"]).sort_values("cells", ascending=False, kind="stable")


VERDICT_COLUMNS = columns(
    *("workload", "pattern", "concurrency", "arm", "k", "speedup", "low", "high"),
    pinned="workload",
    action=Column("Verdict"),
)
CHECKLIST_COLUMNS = columns(
    rule=Column("Rule of thumb, applied to these runs", width="large"),
    cells=Column("Cells", "%d", "The number of workloads and loads it applies to", width="small"),
    where=Column("Where", width="large"),
)
RUN_COLUMNS = columns(
    *("arm", "workload", "pattern", "concurrency", "k", "run_id"),
    alpha=Column("Alpha", "%.2f", "Share of rounds whose first drafted token was accepted"),
    break_even_alpha=Column("Break-even alpha", "%.2f", "Above it, drafting k tokens pays"),
    predicted_length=Column("Tokens per round, predicted", "%.2f", "Tau of alpha and k"),
    length=Column("Tokens per round, measured", "%.2f", "1 + accepted tokens per round"),
    predicted_speedup=Column("Speed-up, predicted", "%.2f×", "Tau / (k × draft cost + 1)"),
    speedup={"label": "Speed-up, measured", "help": "Relative to the baseline's run of that repeat"},
    draft_cost=Column("Draft cost", "%.3f", "Time of a draft step relative to a target step"),
    draft_cost_from=Column("Source of the draft cost"),
    implied_draft_cost=Column(
        "Implied draft cost",
        "%.3f",
        "Computed from the run's own speed-up and tokens per round; includes verification",
    ),
    best_k=Column("Best k in theory", "%d", "At that draft cost; empty if drafting is free"),
)
