"""Tables of verdicts on pairs of arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from lab.comparison.agreement import Agreement
from lab.comparison.effect import Interval
from lab.comparison.verdict import MARKS
from warehouse.queries.comparing.comparisons import Pair, StudyComparison
from webapp.shared.tables import Column, columns

SIGNS: dict[str, str] = {word: f"{mark} {word}" for word, mark in MARKS.items()}
_HELP = {
    False: "At most 5 % of a table's verdicts are expected to be wrong; no difference: within 2 %",
    True: "With 95 % confidence no verdict of the table is wrong; no difference: within 2 %",
}


def verdicts(comparison: StudyComparison, agreed: Sequence[Agreement] | None, category: str | None) -> pd.DataFrame:
    """Return a row per candidate and cell (of `category`). `agreed`: the agreement of each pair, if computed."""
    outputs = [{}] * len(comparison.pairs) if agreed is None else [_outputs(agreement) for agreement in agreed]
    rows = [
        _row(pair, wrote)
        for pair, wrote in zip(comparison.pairs, outputs, strict=True)
        if category is None or pair.candidate.category == category
    ]
    table = pd.DataFrame(rows)
    return table if rows and any(table["alone"]) else table.drop(columns="alone", errors="ignore")


def _outputs(agreed: Agreement) -> dict[str, object]:
    """Return shares in percent; None where they are unknown."""
    same, degenerate = agreed.same_share, agreed.candidate_degenerate_share
    return {
        "same": None if same is None else 100 * same.value,
        "differs": _first_difference(agreed),
        "degenerate": None if degenerate is None else 100 * degenerate,
    }


def _first_difference(agreed: Agreement) -> str:
    """Return the median token, from 1, at which differing outputs begin to differ; empty if none differs or it is
    unknown.
    """
    exact, estimated = agreed.median_first_differing_token, agreed.median_estimated_first_differing_token
    token = exact if exact is not None else estimated
    return "" if token is None else f"{'' if exact is not None else 'about '}token {token + 1:.0f}"


def _row(pair: Pair, wrote: Mapping[str, object]) -> dict[str, object]:
    ratio = pair.ratio or Interval(float("nan"), None, None)
    return {
        "arm": pair.candidate.arm,
        "verdict": SIGNS[pair.verdict.word],
        "ratio": ratio.value,
        "low": ratio.low,
        "high": ratio.high,
        "workload": pair.cell.workload,
        "pattern": pair.cell.pattern,
        "concurrency": pair.cell.concurrency,
        "decides": f"about {pair.verdict.would_decide}" if pair.verdict.would_decide else "",
        **wrote,
        "alone": pair.alone_sentence,
        "basis": pair.comparison.basis,
    }


def verdict_config(table: pd.DataFrame, *, strict: bool) -> dict[str, Any]:
    """Return the configuration of `table`, a table of `verdicts`; `strict`: their reading.

    Columns that do not fit a page of 1280 pixels are hidden: they are in the files and the table's menu.
    """
    hidden = ("concurrency", "basis", *(("differs",) if "alone" in table else ()))
    shown = columns(
        *("arm", "workload", "ratio", "low", "high"),
        pattern={"width": 75},
        verdict={"width": 118, "help": _HELP[strict]},
        decides=Column(
            "Would decide",
            help="Repeats, or engine starts of each arm, to add for a verdict if the spread stays the same",
            width=160,
        ),
        alone=Column("Without the correction", help="Where the interval alone excludes 1", width=140),
        same=Column("Same output", "%.0f %%", "Share of prompts with the baseline's output; greedy only", width=85),
        differs=Column(
            "Else from", help="Median over prompts with a different output; about: estimated from the text", width=105
        ),
        degenerate=Column("Degenerate", "%.0f %%", "Share of the outputs that are long enough to judge"),
    )
    return shown | dict.fromkeys(hidden)
