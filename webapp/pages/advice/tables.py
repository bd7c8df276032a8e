"""The Advice page's tables: titles, units and formats."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from webapp.shared.tables import RUN_COLUMN

_number, _text = st.column_config.NumberColumn, st.column_config.TextColumn
SIGNS = {"enable": "▲ enable", "do not enable": "▼ do not enable", "measure this next": "? measure this next"}
_PLACE: dict[str, Any] = {
    "workload": _text("Workload", pinned=True),
    "pattern": _text("Load", help="c: requests in flight, n: number of prompts"),
    "concurrency": _number("Concurrency", format="%d", width="small"),
}
VERDICTS = _PLACE | {
    "action": _text("Verdict"),
    "arm": _text("Arm"),
    "k": _number("k", format="%d", width="small", help="Drafted tokens"),
    "speedup": _number("Speed-up", format="%.2f×", help="Output throughput over the baseline's"),
    "low": _number("95 % from", format="%.2f×"),
    "high": _number("95 % to", format="%.2f×"),
}
CHECKLIST: dict[str, Any] = {
    "says": _text("Rule of thumb, as it applies here", width="large"),
    "places": _number("Places", format="%d", width="small", help="Workloads and loads it applies to"),
    "where": _text("Where", width="large"),
}
RUNS = (
    {"arm": _text("Arm", pinned=True)}
    | _PLACE
    | {
        "workload": _text("Workload"),
        "k": _number("k", format="%d", width="small", help="Drafted tokens"),
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
        "run_id": RUN_COLUMN,
    }
)


def verdicts(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(action=rows["action"].map(SIGNS))
