"""The form's arms: one row each, and behind a button what goes to its engine as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from lab.study.arm import LOOKUP_METHODS, METHODS
from webapp.pages.submit import form_line, form_options, row_widgets, validation_messages
from webapp.pages.submit.form_line import BUTTONS_WIDTH, Label, Line
from webapp.pages.submit.form_model import NO_SPECULATION, Row
from webapp.pages.submit.validation_messages import Problem
from webapp.shared.text import count, literal

TABLE = "arms"
#: In pixels; what has a name shares the rest.
_ENGINE_WIDTH, _METHOD_WIDTH, _TOKENS_WIDTH = 122, 138, 70
_DRAFTS = (
    "A folder or hub name; `reference-draft` and `reference-eagle3` come along. "
    "For look-ups: the least and the most tokens that must match (prompt_lookup_min and _max)"
)
_LABELS: tuple[Label, ...] = (
    ("Name", "stretch", None),
    ("Engine", _ENGINE_WIDTH, "By its name in a worker's engines.toml; endpoint is a server that runs already"),
    ("Method", _METHOD_WIDTH, "How tokens are drafted; those that the engine has, where a worker has told"),
    ("Draft model", "stretch", _DRAFTS),
    ("k", _TOKENS_WIDTH, "Speculative tokens a round"),
)
_BASELINE = "arms-baseline"
#: No row has this number.
_THE_ONE_WITHOUT = -1
_AREA = 96
_DETAILS, _METHOD_DETAILS = ("flags", "config", "environment"), ("options",)


def edit(problems: Sequence[Problem]) -> tuple[Row, ...]:
    with st.container(border=True, gap="xsmall"):
        head = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")
        with head:
            st.markdown("**Arms** :gray[– ways to serve the target]", width="content")
        rows = _rows(problems)
        with head:
            baseline = _baseline({number: row["name"] for number, row in rows.items()})
        _buttons(rows)
        row_widgets.say(validation_messages.of_table(problems, TABLE))
    return tuple(row | {"baseline": number == baseline} for number, row in rows.items())


def _rows(problems: Sequence[Problem]) -> dict[int, dict[str, Any]]:
    drawn = {}
    form_line.header(TABLE, _LABELS)
    for place, (number, initial) in enumerate(row_widgets.rows(TABLE)):
        drawn[number] = _row(Line(TABLE, number, initial))
        row_widgets.say_row(problems, TABLE, place)
    return drawn


def _buttons(rows: Mapping[int, Row]) -> None:
    last = list(rows.values())[-1] if rows else {}
    new = {"name": "", "engine": last.get("engine", form_options.DEFAULT_ENGINE), "method": NO_SPECULATION}
    st.button(
        "Add an arm", icon=":material/add:", type="tertiary", on_click=row_widgets.add, args=(TABLE, new), key="add-arm"
    )


def _baseline(names: Mapping[int, str]) -> int:
    """The number of the row that the others are compared with."""
    initial = next((number for number, row in row_widgets.rows(TABLE) if row.get("baseline")), _THE_ONE_WITHOUT)
    options = [_THE_ONE_WITHOUT, *names]
    with st.container(horizontal=True, vertical_alignment="center", width="content", gap="small"):
        st.caption("Baseline", width="content", help="What the others are compared with")
        chosen: int = st.selectbox(
            "Baseline",
            options,
            options.index(initial) if initial in options else 0,
            format_func=lambda number: names.get(number, "the arm without speculation") or "(no name)",
            key=row_widgets.key(_BASELINE),
            label_visibility="collapsed",
            width=230,
        )
    return chosen


def _row(line: Line) -> dict[str, Any]:
    row: dict[str, Any] = {}
    with form_line.beside():
        row["name"] = line.text("name", "Name", placeholder="a name of its own")
        row["engine"] = line.choice(
            "engine", "Engine", form_options.engine_names(), accept_new_options=True, width=_ENGINE_WIDTH
        )
        methods = [NO_SPECULATION, *form_options.methods(row["engine"])]
        row["method"] = line.choice("method", "Method", methods, width=_METHOD_WIDTH)
        row |= _drafting(line, row["method"])
        row["k"] = _tokens(line, row["method"])
        row |= line.within(*_DETAILS, *(() if row["method"] == NO_SPECULATION else _METHOD_DETAILS))
        if opened := form_line.details(line, "Flags, configuration file and environment of this arm"):
            with opened:
                _show_details(line, row["method"])
                _copy_button(line, row)
        form_line.remove_button(line, "arm")
    if form_options.is_endpoint(row["engine"]) or line.initial.get("base_url"):
        row |= _server(line)
    if said := _summary(row):
        st.caption(literal(said))
    return row


def _drafting(line: Line, method: str | None) -> Row:
    """The draft model, or the lengths of match that a look-up takes, in the same place of the row."""
    if method in LOOKUP_METHODS:
        with form_line.beside(wrap=False):
            lookup = {"lookup_min": line.count("lookup_min", "Shortest match", placeholder="match from")}
            return lookup | {"lookup_max": line.count("lookup_max", "Longest match", placeholder="to")}
    if method == NO_SPECULATION or METHODS.get(str(method)) is False:
        line.blank("no_model", "Draft model", "stretch")
        return {}
    wanted = "a folder or hub name" if METHODS.get(str(method)) else "none, a folder or hub name"
    return {"draft_model": line.text("draft_model", "Draft model", placeholder=wanted)}


def _tokens(line: Line, method: str | None) -> int | None:
    if method == NO_SPECULATION:
        line.blank("no_k", "k", _TOKENS_WIDTH)
        return None
    return line.count("k", "k", width=_TOKENS_WIDTH)


def _server(line: Line) -> Row:
    with form_line.beside():
        said = "Without /v1. The server runs already; nothing is started."
        row = {"base_url": line.text("base_url", "Server's address", inside=True, help=said, placeholder="http://…")}
        row["served_model"] = line.text("served_model", "Model's name there", inside=True, placeholder="the target's")
        said = "The name of a secret on the worker's host (DRAFTHOUSE_SECRET_NAME). Never the key itself."
        row["api_key"] = line.text("api_key", "Secret with the key", inside=True, placeholder="none", help=said)
        st.space(BUTTONS_WIDTH)
    return row


def _show_details(line: Line, method: str | None) -> None:
    line.area("flags", "Flags (TOML, one a line)", _AREA, placeholder="max-num-seqs = 8")
    line.area("config", "The engine's configuration file (YAML)", _AREA, placeholder="kv-cache-dtype: fp8")
    line.area("environment", "Environment (NAME=value)", _AREA, placeholder="OMP_NUM_THREADS=1")
    if method != NO_SPECULATION:
        label = "Further options of the method (TOML)"
        line.area("options", label, _AREA, placeholder="draft_tensor_parallel_size = 1")


def _copy_button(line: Line, row: Row) -> None:
    copy = {**row, "name": f"{row['name']} copy"}
    st.button(
        "Copy this arm",
        icon=":material/content_copy:",
        key=line.key("copy"),
        on_click=row_widgets.add_after,
        args=(TABLE, line.number, copy),
    )


def _summary(row: Row) -> str:
    """What stands behind the button, so that nothing is hidden: the flags in full where they are short."""
    flags = ", ".join((row.get("flags") or "").splitlines())
    variables = len((row.get("environment") or "").splitlines())
    settings = len((row.get("config") or "").splitlines())
    said = [
        flags if len(flags) <= 90 else count(len((row.get("flags") or "").splitlines()), "flag"),
        f"configuration file of {count(settings, 'line')}" if settings else "",
        count(variables, "variable") if variables else "",
        ", ".join((row.get("options") or "").splitlines()),
    ]
    return " · ".join(part for part in said if part)
