"""Tables as the pages show them: columns, numbers as on cards and charts, links to runs, and buttons of their files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, TypedDict

import pandas as pd
import streamlit as st
from pandas.api import types
from pandas.io.formats.style import Styler

from lab.metrics.catalogue import BY_NAME
from lab.metrics.definition import Metric
from lab.metrics.number_format import is_saving_too_wide, is_too_wide, number, percent, ratio
from webapp.charts.axes import without_wide
from webapp.shared import downloads
from webapp.shared.text import literal
from webapp.shared.url_params import View

#: Columns with an interval in two others, which are written as one: `1.48× [1.36, 1.60]`.
_INTERVALS: Mapping[str, tuple[str, str]] = {
    "ratio": ("low", "high"),
    "speedup": ("low", "high"),
    "gain": ("low", "high"),
    "saving": ("saving_low", "saving_high"),
}
#: Each such cell is written by the server; larger tables have the formats of their columns, which the browser applies.
_MOST_CELLS = 6_000
#: Pixels of a letter, of a cell's margins, and the most for a column of names.
_LETTER_PX, _MARGINS_PX, _MOST_NAME_PX = 6.4, 20, 240
#: Outside these bounds a number of unknown meaning has an exponent.
_SMALL, _LARGE = 1e-6, 1e15

_RATIO = "%.2f×"
DAY, MINUTE, SECOND = "YYYY-MM-DD", "YYYY-MM-DD HH:mm", "YYYY-MM-DD HH:mm:ss"
Width = int | Literal["small", "medium", "large"]


def show_table(
    frame: pd.DataFrame,
    config: dict[str, Any],
    title: str,
    view: View,
    key: str,
    *,
    same_once: bool = False,
    stays: str = "",
    has_boxes: bool = False,
    if_empty: str = "",
) -> list[int]:
    """Show a table with buttons for its files. Runs link to their pages if the view or the row names the study.

    `frame` counts repeats from 0, as the warehouse does; the table counts them from 1, as people do. With `same_once`,
    a column with one value in all rows becomes a line above the table, except the one that `stays`; the columns' menu
    and the files still have it.
    With `has_boxes` the reader can choose runs; the positions of their rows in `frame` are returned. `if_empty` is the
    sentence in place of a table without rows.
    """
    if frame.empty and if_empty:
        st.caption(if_empty)
        return []
    if "repeat" in frame:
        frame = frame.assign(repeat=frame["repeat"] + 1)
    if same_once and (same := same_in_all(frame.drop(columns=stays, errors="ignore"), config)):
        st.caption("In all rows: " + "; ".join(f"{label} {literal(text)}" for label, text in same.values()))
        config = config | dict.fromkeys(same)
    config = with_room_for_names(frame, config)
    shown, shown_config = written(with_run_links(frame, *view.parameters.get("job", ())), config)
    chosen: list[int] = []
    if has_boxes:
        boxes = f"boxes-{key}-{hash(tuple(frame['run_id']))}"  # other rows forget what was chosen
        event = show_rows(shown, shown_config, title, key=boxes, on_select="rerun", selection_mode="multi-row")
        chosen = [row for row in event["selection"]["rows"] if row < len(frame)]
    else:
        show_rows(shown, shown_config, title)
    downloads.show_table_buttons(lambda: frame, title, view, key)
    return chosen


def show_rows(rows: Any, config: Mapping[str, Any], title: str, **options: Any) -> Any:
    """Show rows as they are, without their index and with empty cells for None; `title` is for screen readers."""
    return st.dataframe(rows, hide_index=True, column_config=config, alt=title, placeholder="", **options)


def with_room_for_names(frame: pd.DataFrame, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration with the pinned column as wide as its longest name: the browser measures the first rows
    only, which all name the baseline.
    """
    wide = dict(config)
    for name, column in config.items():
        is_text = bool(column) and column.get("type_config", {}).get("type") == "text"
        if is_text and column.get("pinned") and column.get("width") is None and name in frame:
            letters = max((len(str(value)) for value in frame[name].dropna().unique()), default=0)
            wide[name] = column | {"width": min(_MOST_NAME_PX, round(_LETTER_PX * letters) + _MARGINS_PX)}
    return wide


def same_in_all(frame: pd.DataFrame, config: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return label and text of each column of words, counts or flags that has one value in two rows or more."""
    found: dict[str, tuple[str, str]] = {}
    for name in frame.columns if len(frame) > 1 else ():
        column: dict[str, Any] = config.get(name) or {}
        kind = column.get("type_config", {}).get("type", "")
        if kind not in ("text", "checkbox", "number") or (kind == "number" and not _format_of(column).endswith("d")):
            continue
        if len(values := frame[name].unique()) == 1 and not pd.isna(values[0]) and values[0] != "":
            text = ("no", "yes")[bool(values[0])] if kind == "checkbox" else f"{values[0]:{'.0f' * (kind == 'number')}}"
            found[name] = (column["label"], text)
    return found


def written(frame: pd.DataFrame, config: dict[str, Any]) -> tuple[pd.DataFrame | Styler, dict[str, Any]]:
    """Return the table with numbers formatted as on cards and charts, each with its interval; they sort as numbers.

    Streamlit's own formats lack significant digits; only counts and tables of too many cells use them. Columns without
    any value are hidden; the downloads have them.
    """
    if frame.size > _MOST_CELLS:
        return _without_wide(frame, config), config
    plain, shown = frame.reset_index(drop=True), dict(config)
    shown |= dict.fromkeys(name for name in plain.columns if len(plain) and plain[name].isin(["", None]).all())
    texts: dict[str, Callable[[float], str]] = {}
    alike: dict[tuple[int, str], str] = {}
    for name in plain.columns:
        write = _writer(plain, name, _format_of(shown[name])) if name in shown else _any_writer(plain[name])
        if write is not None:
            texts[name] = write
            if name in config:
                shown[name] = _without_format(shown[name])
    for name, bounds in _INTERVALS.items():
        if name in texts and name in config and set(bounds) <= set(plain.columns):
            shown |= dict.fromkeys(bounds)
            rows = enumerate(_with_intervals(plain, name, _format_of(config[name])))
            alike |= {
                (row, name): text for row, (value, text) in rows if not math.isnan(value) and texts[name](value) != text
            }
    styled = _without_wide(plain, config).style.format(texts, na_rep="")  # type: ignore[arg-type]  # pandas-stubs wants text for keys
    for (row, name), text in alike.items():  # a formatter gets the value alone, which another row may have
        styled.format(lambda _, text=text: text, subset=([row], [name]))  # type: ignore[misc]
    return styled, shown


def _without_wide(frame: pd.DataFrame, config: dict[str, Any]) -> pd.DataFrame:
    """Return the table without the ends of intervals that are shown as unknown; the answer of a query has them all."""
    for name, bounds in _INTERVALS.items():
        if name in config and {name, *bounds} <= set(frame.columns):
            judge = is_saving_too_wide if name == "saving" else is_too_wide
            frame = without_wide(frame, (name, *bounds), judge)
    return frame


def _writer(frame: pd.DataFrame, name: str, column_format: str) -> Callable[[float], str] | None:
    """Return the formatter of a column of numbers; None for counts, dates and text."""
    if not types.is_float_dtype(frame[name]) or not column_format or column_format.endswith(("d", "%%")):
        return None
    if not column_format.endswith("×") and name != "saving":
        return number
    return dict(_with_intervals(frame, name, column_format)).__getitem__


def _with_intervals(frame: pd.DataFrame, name: str, column_format: str) -> list[tuple[float, str]]:
    """Return the ratio or saving of each row, and its text, with its interval if the table has the columns of one."""
    of_unit, ends = ratio if column_format.endswith("×") else percent, _INTERVALS.get(name, ())
    known = [frame[end].astype(float) for end in ends] if set(ends) <= set(frame.columns) else []
    return [(value, of_unit(value, *bounds)) for value, *bounds in zip(frame[name], *known, strict=True)]


def _any_writer(column: pd.Series) -> Callable[[float], str] | None:
    """Return the formatter of a column without a configuration, such as of a query's answer."""
    if not types.is_float_dtype(column):
        return None
    values = column.dropna()
    return partial(_any_number, is_whole=bool((values % 1 == 0).all()))


def _any_number(value: float, *, is_whole: bool) -> str:
    if not math.isfinite(value) or (value and not _SMALL <= abs(value) < _LARGE):
        return f"{value:.3g}"
    return f"{value:,.0f}" if is_whole else number(value)


def _format_of(column: Any) -> str:
    """Return the format of a column of numbers, empty if it has none."""
    settings = column.get("type_config", {}) if isinstance(column, dict) else {}
    return str(settings.get("format") or "") if settings.get("type") == "number" else ""


def _without_format(column: dict[str, Any]) -> dict[str, Any]:
    return column | {"type_config": column["type_config"] | {"format": None}}


def with_run_links(frame: pd.DataFrame, job_id: str | None = None) -> pd.DataFrame:
    """Replace the ids of runs by links to their pages; `job_id`: the study of all rows. Published runs have no page."""
    if "run_id" not in frame or (job_id is None and "job_id" not in frame):
        return frame
    jobs = frame["job_id"] if job_id is None else [job_id] * len(frame)
    pairs = zip(jobs, frame["run_id"], frame.get("origin", [None] * len(frame)), strict=True)
    links = [
        f"run?job={job}&run={run}" if isinstance(run, str) and origin != "published" else None
        for job, run, origin in pairs
    ]
    return frame.assign(run_id=pd.Series(links, index=frame.index, dtype=object))


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
