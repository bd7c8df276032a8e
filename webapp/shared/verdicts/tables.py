"""Tables of verdicts on pairs of arms, and of the findings of the checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import streamlit as st

from lab.comparison.agreement import Agreement
from lab.comparison.effect import Interval
from lab.comparison.verdict import alone_sentence
from warehouse.queries.comparing.comparisons import Pair, StudyComparison
from webapp.shared.tables import columns
from webapp.shared.text import count

SIGNS = {
    "faster": "▲ faster",
    "slower": "▼ slower",
    "no difference": "= no difference",
    "not enough data": "? not enough data",
    "control": "≡ control",
}
_HELP = {
    False: "Of all calls in a table at most 5 % are false; no difference: within 2 %",
    True: "With 95 % confidence no call in the table is false; no difference: within 2 %",
}
_FINDINGS = ["severity", "arm", "category", "pattern", "repeat", "sentence", "advice", "check_name", "run_id"]


def verdicts(comparison: StudyComparison, agreed: Sequence[Agreement] | None, category: str | None) -> pd.DataFrame:
    """One row per candidate and cell, of `category` if given. `agreed`: the agreement of each pair, if computed."""
    outputs = [{}] * len(comparison.pairs) if agreed is None else [_outputs(agreement) for agreement in agreed]
    rows = [
        _row(pair, wrote)
        for pair, wrote in zip(comparison.pairs, outputs, strict=True)
        if category is None or pair.candidate.category == category
    ]
    table = pd.DataFrame(rows)
    return table if rows and any(table["alone"]) else table.drop(columns="alone", errors="ignore")


def _outputs(agreed: Agreement) -> dict[str, object]:
    """Shares in percent; None where they are unknown."""
    same, degenerate = agreed.same_share, agreed.candidate_degenerate_share
    return {
        "same": None if same is None else 100 * same.value,
        "differs": _first_difference(agreed),
        "degenerate": None if degenerate is None else 100 * degenerate,
    }


def _first_difference(agreed: Agreement) -> str:
    """The median token, from 1, at which differing outputs begin to differ; empty if none differs or it is unknown."""
    exact, estimated = agreed.median_first_differing_token, agreed.median_estimated_first_differing_token
    place = exact if exact is not None else estimated
    return "" if place is None else f"{'' if exact is not None else 'about '}token {place + 1:.0f}"


def _row(pair: Pair, wrote: Mapping[str, object]) -> dict[str, object]:
    ratio = pair.ratio or Interval(float("nan"), None, None)
    more = pair.verdict.more_repeats
    return {
        "arm": pair.candidate.arm,
        "verdict": SIGNS[pair.verdict.word],
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        "workload": pair.cell.workload,
        "pattern": pair.cell.pattern,
        "concurrency": pair.cell.concurrency,
        "decides": f"about {count(more, 'more repeat')}" if more else "",
        **wrote,
        "alone": alone_sentence(pair.comparison, pair.verdict),
        "basis": pair.comparison.basis,
    }


def verdict_config(table: pd.DataFrame, *, strict: bool) -> dict[str, Any]:
    """`table` of `verdicts`; `strict`: their reading.

    What would push others out of a page of 1280 pixels is hidden: it is in the files and behind the table's menu.
    """
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    hidden = ("concurrency", "basis", *(("differs",) if "alone" in table else ()))
    return {
        **columns("arm", "workload", "ratio", "low", "high"),
        "pattern": text("Load", width=75, help="c: requests in flight, n: number of prompts"),
        "verdict": text("Verdict", width=118, help=_HELP[strict]),
        "decides": text("Would decide", width=160, help="Repeats to add for a verdict if the spread stays the same"),
        "alone": text("Without the correction", width=140, help="Where the interval alone excludes 1"),
        "same": number(
            "Same output", format="%.0f %%", width=85, help="Share of prompts with the baseline's output; greedy only"
        ),
        "differs": text(
            "Else from", width=105, help="Median over prompts with another output; about: estimated from the text"
        ),
        "degenerate": number("Degenerate", format="%.0f %%", help="Share of the outputs that are long enough to judge"),
        **dict.fromkeys(hidden),
    }


def findings(table: pd.DataFrame) -> pd.DataFrame:
    return table[_FINDINGS]


def findings_config() -> dict[str, Any]:
    text = st.column_config.TextColumn
    return columns("arm", "category", "pattern", "repeat", "run_id", pinned="severity") | {
        "severity": text("Severity", pinned=True, width="small"),
        "sentence": text("Finding", width="large"),
        "advice": text("What to do", width="large"),
        "check_name": text("Check"),
    }
