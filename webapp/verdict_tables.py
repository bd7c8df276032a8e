"""Tables that say what to believe: verdicts on pairs of arms, and what the checks found in runs."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from lab.comparison.effect import Interval
from warehouse.comparisons import Pair, StudyComparison
from webapp.tables import RUN_COLUMN
from webapp.text import count

_SIGNS = {
    "faster": "▲ faster",
    "slower": "▼ slower",
    "no difference": "= no difference",
    "not enough data": "? not enough data",
}
_FINDINGS = ["severity", "arm", "category", "pattern", "repeat", "sentence", "advice", "check_name", "run_id"]


def verdicts(found: StudyComparison, category: str | None) -> pd.DataFrame:
    """One row a candidate and place; of one category where one is given."""
    pairs = [pair for pair in found.pairs if category is None or pair.candidate.category == category]
    return pd.DataFrame([_row(pair) for pair in pairs])


def _row(pair: Pair) -> dict[str, object]:
    ratio = pair.comparison.ratio or Interval(float("nan"), None, None)
    more = pair.verdict.more_repeats
    return {
        "arm": pair.candidate.arm,
        "workload": pair.place.workload,
        "pattern": pair.place.pattern,
        "concurrency": pair.place.concurrency,
        "verdict": _SIGNS[pair.verdict.word],
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        "decides": f"about {count(more, 'more repeat')}" if more else "",
        "basis": pair.comparison.basis,
    }


def verdict_config() -> dict[str, Any]:
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    return {
        "arm": text("Arm", pinned=True),
        "workload": text("Workload"),
        "pattern": text("Load", help="c: requests in flight, n: number of prompts"),
        "concurrency": number("Concurrency", format="%d", width="small"),
        "verdict": text("Verdict", help="At 95 % for the whole table together (Holm); no difference: within 2 %"),
        "ratio": number("To baseline", format="%.2f×", help="Candidate over baseline, mean over repeats"),
        "low": number("95 % from", format="%.2f×"),
        "high": number("95 % to", format="%.2f×"),
        "decides": text("Would decide", help="If the scatter stays as it is"),
        "basis": text("Interval from", width="large"),
    }


def findings(found: pd.DataFrame) -> pd.DataFrame:
    return found[_FINDINGS]


def findings_config() -> dict[str, Any]:
    text = st.column_config.TextColumn
    return {
        "severity": text("Severity", pinned=True, width="small"),
        "arm": text("Arm"),
        "category": text("Category"),
        "pattern": text("Load"),
        "repeat": st.column_config.NumberColumn("Repeat", format="%d", width="small", help="Counted from 0"),
        "sentence": text("Found", width="large"),
        "advice": text("What to do", width="large"),
        "check_name": text("Check"),
        "run_id": RUN_COLUMN,
    }
