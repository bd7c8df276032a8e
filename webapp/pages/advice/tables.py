"""The Advice page's tables: titles, units and formats."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from webapp.shared.tables import columns

_number, _text = st.column_config.NumberColumn, st.column_config.TextColumn
SIGNS = {"enable": "▲ enable", "do not enable": "▼ do not enable", "measure this next": "? measure this next"}
VERDICTS: dict[str, Any] = columns(
    "workload", "pattern", "concurrency", "arm", "k", "low", "high", pinned="workload"
) | {
    "action": _text("Verdict"),
    "speedup": _number("Speed-up", format="%.2f×", help="Output throughput over the baseline's"),
}
CHECKLIST: dict[str, Any] = {
    "says": _text("Rule of thumb, as it applies here", width="large"),
    "places": _number("Places", format="%d", width="small", help="Workloads and loads it applies to"),
    "where": _text("Where", width="large"),
}
RUNS: dict[str, Any] = columns("arm", "workload", "pattern", "concurrency", "k", "run_id") | {
    "alpha": _number("Alpha", format="%.2f", help="Share of rounds whose first drafted token was accepted"),
    "break_even_alpha": _number("Alpha to break even", format="%.2f", help="Above it, k drafted tokens pay"),
    "predicted_length": _number("Tokens a round, predicted", format="%.2f", help="Tau of alpha and k"),
    "length": _number("measured", format="%.2f", help="1 + accepted tokens per round"),
    "predicted_speedup": _number("Speed-up, predicted", format="%.2f×", help="Tau / (k × draft cost + 1)"),
    "speedup": _number("measured ", format="%.2f×", help="Over the baseline's run of the same repeat"),
    "draft_cost": _number("Draft cost", format="%.3f", help="Time of a draft step over a target step"),
    "draft_cost_from": _text("which is"),
    "implied_draft_cost": _number(
        "Cost it implies itself", format="%.3f", help="What its own speed-up and length say, verifying included"
    ),
    "best_k": _number("Best k by theory", format="%d", help="At that cost; empty where drafts are free"),
}


def verdicts(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(action=rows["action"].map(SIGNS))
