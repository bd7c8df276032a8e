"""Tables that say what to believe: verdicts on pairs of arms, and what the checks found in runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from lab.comparison.agreement import Agreement
from lab.comparison.effect import Interval
from warehouse.queries.comparisons import Pair, StudyComparison
from webapp.shared.tables import RUN_COLUMN
from webapp.shared.text import count

_SIGNS = {
    "faster": "▲ faster",
    "slower": "▼ slower",
    "no difference": "= no difference",
    "not enough data": "? not enough data",
}
_FINDINGS = ["severity", "arm", "category", "pattern", "repeat", "sentence", "advice", "check_name", "run_id"]


def verdicts(found: StudyComparison, agreed: Sequence[Agreement] | None, category: str | None) -> pd.DataFrame:
    """One row a candidate and place; of one category where one is given. `agreed`: of each pair, where it is known."""
    outputs = [{}] * len(found.pairs) if agreed is None else [_outputs(each) for each in agreed]
    rows = [
        _row(pair, wrote)
        for pair, wrote in zip(found.pairs, outputs, strict=True)
        if category is None or pair.candidate.category == category
    ]
    return pd.DataFrame(rows)


def _outputs(agreed: Agreement) -> dict[str, object]:
    """Shares in percent; None where there is nothing to tell them by."""
    same, degenerate = agreed.same_share, agreed.candidate_degenerate_share
    return {
        "same": None if same is None else 100 * same.value,
        "differs": _first_difference(agreed),
        "degenerate": None if degenerate is None else 100 * degenerate,
    }


def _first_difference(agreed: Agreement) -> str:
    """Where the outputs that differ begin to, as people count; empty where none does, or it is unknown."""
    exact, estimated = agreed.median_first_differing_token, agreed.median_estimated_first_differing_token
    place = exact if exact is not None else estimated
    return "" if place is None else f"{'' if exact is not None else 'about '}token {place + 1:.0f}"


def _row(pair: Pair, wrote: Mapping[str, object]) -> dict[str, object]:
    ratio = pair.comparison.ratio or Interval(float("nan"), None, None)
    more = pair.verdict.more_repeats
    return {
        "arm": pair.candidate.arm,
        "workload": pair.cell.workload,
        "pattern": pair.cell.pattern,
        "concurrency": pair.cell.concurrency,
        "verdict": _SIGNS[pair.verdict.word],
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        **wrote,
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
        "same": number(
            "Same output", format="%.0f %%", help="Of the prompts, as the baseline; of greedy sampling only"
        ),
        "differs": text(
            "Else from", help="Median over the prompts with another output; about: estimated from the text"
        ),
        "degenerate": number("Degenerate", format="%.0f %%", help="Of the arm's outputs that are long enough to tell"),
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
