"""The columns of the pages' tables. Columns of several tables are declared here once, metrics in their catalogue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypedDict

import streamlit as st

from lab.metrics.catalogue import BY_NAME
from lab.metrics.definition import Metric

_RATIO = "%.2f×"
DAY, MINUTE, SECOND = "YYYY-MM-DD", "YYYY-MM-DD HH:mm", "YYYY-MM-DD HH:mm:ss"
Width = int | Literal["small", "medium", "large"]


@dataclass(frozen=True)
class Column:
    """A column as shown to its reader.

    `format`: of numbers (`%.2f×`) or of times (DAY, MINUTE or SECOND); text has none. `states`: the colour of each
    value in a column of badges, whose cells are lists. `link_text`: what a link shows, or a pattern that finds it in
    the address. `is_flag`: the values are yes, no or unknown.
    """

    label: str
    format: str = ""
    help: str | None = None
    width: Width | None = None
    alignment: Literal["left", "center", "right"] | None = None
    states: Mapping[str, str] = field(default_factory=dict)
    link_text: str = ""
    is_flag: bool = False

    def config(self, *, pinned: bool = False) -> Any:
        """Return Streamlit's configuration of the column. If `pinned`, it stays visible when the table is scrolled."""
        kinds = st.column_config
        kind: Callable[..., Any] = kinds.TextColumn
        if self.states:
            kind = partial(kinds.MultiselectColumn, options=list(self.states), color=list(self.states.values()))
        elif self.link_text:
            kind = partial(kinds.LinkColumn, display_text=self.link_text)
        elif self.is_flag:
            kind = kinds.CheckboxColumn
        elif self.format:
            times: dict[str, Callable[..., Any]] = {
                DAY: kinds.DateColumn,
                MINUTE: kinds.DatetimeColumn,
                SECOND: kinds.DatetimeColumn,
            }
            kind = partial(times.get(self.format, kinds.NumberColumn), format=self.format)
        aligned = {"alignment": self.alignment} if self.alignment else {}
        return kind(self.label, help=self.help, width=self.width, pinned=pinned or None, **aligned)


class Change(TypedDict, total=False):
    """A table's changes to a declared column."""

    label: str
    format: str
    help: str | None
    width: Width | None


_UPPER, _LOWER = "Upper end of the 95 % confidence interval", "Lower end of the 95 % confidence interval"
#: By the name of the column in the table's rows.
COLUMNS: Mapping[str, Column] = {
    "arm": Column("Arm"),
    "basis": Column("Stands on", width="medium"),
    "category": Column("Category"),
    "concurrency": Column("Concurrency", "%d", "The greatest number of requests in flight", width="small"),
    "currency": Column("Currency"),
    "dataset": Column("Dataset"),
    "draft_model": Column("Draft model"),
    "duration": Column("Duration"),
    "engine": Column("Engine"),
    "engine_version": Column("Engine version"),
    "error": Column("Error", help="The message of the engine or of the client", width="large"),
    "expected": Column("Expected", _RATIO, "Speed-up over no speculation, as far as known"),
    "fate": Column("Outcome", width="large"),
    "hardware": Column("Hardware"),
    "high": Column("95 % to", _RATIO, _UPPER, width=75),
    "is_valid": Column("Valid", help="Whether all checks passed; empty: not checked", is_flag=True),
    "job_id": Column("Job", width=165),
    "k": Column("Draft tokens k", "%d", "Tokens drafted in a round", width=105),
    "load": Column("Load"),
    "low": Column("95 % from", _RATIO, _LOWER, width=80),
    "method": Column("Method"),
    "pattern": Column("Load", help="c: requests in flight, n: number of prompts"),
    "prompts": Column("Prompts", "%,d"),
    "ratio": Column(
        "To baseline [95 %]",
        _RATIO,
        "Arm over baseline, geometric mean of the repeats' ratios, with the interval that the verdict stands on; "
        "unknown: it reaches beyond ten times the ratio, or below a tenth of it",
        width=150,
    ),
    "repeat": Column("Repeat", "%d", "Counted from 1; in SQL from 0", width="small"),
    "repeats": Column("Repeats", "%d", width="small"),
    "requested_output_tokens": Column("Output tokens", "%d", "As requested", width="small"),
    "requests": Column("Requests", "%,d"),
    "run_id": Column("Run", link_text=r"run=([^&]*)$"),  # of `tables.with_run_links`
    "runs": Column("Runs", "%d", width="small"),
    "source": Column("Source"),
    "speedup": Column("Speed-up", _RATIO, "Output throughput relative to the baseline"),
    "started_at": Column("Started (UTC)", SECOND),
    "status": Column("Status", width="small"),
    "study": Column("Study"),
    "target": Column("Target"),
    "unit": Column("Unit"),
    "verdict": Column("Verdict", width=125),
    "workload": Column("Workload"),
}


def columns(*names: str, pinned: str = "arm", **others: Column | Change) -> dict[str, Any]:
    """Return the configuration of a table; the column named `pinned` stays visible when it is scrolled. `names` are
    declared here or in the catalogue of metrics; `others` are this table's own columns, or its changes to declared
    ones.
    """
    found = {name: declared(name) for name in names}
    for name, given in others.items():
        found[name] = given if isinstance(given, Column) else replace(declared(name), **given)
    return {name: column.config(pinned=name == pinned) for name, column in found.items()}


def declared(name: str) -> Column:
    """Return the column of this name. Raises KeyError if it is not declared."""
    return COLUMNS[name] if name in COLUMNS else of_metric(BY_NAME[name])


def of_metric(metric: Metric) -> Column:
    """Return a metric's column in a readable unit; the caller multiplies its values by `metric.factor`."""
    return Column(metric.heading, f"%{metric.number_format}", metric.formula)
