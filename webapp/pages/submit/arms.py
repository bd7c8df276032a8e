"""The form's arms: one row each, with the settings that are written as text behind a button."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from jobs.engines.speculation.option import (
    OneOf,
    Option,
    falling_shares,
    lengths_by_batch,
    schedule,
    whole_numbers,
)
from lab.study.methods import method_of
from webapp.pages.submit import form_model, form_options, row_widgets, validation_messages
from webapp.pages.submit.form_model import NO_SPECULATION, Row, UnreadableError, flags_text, read_flags
from webapp.pages.submit.new_arm import FIRST_K, made_name, new_arm
from webapp.pages.submit.row_widgets import BUTTONS_WIDTH, Label, RowWidgets, row_container
from webapp.pages.submit.validation_messages import Problem
from webapp.shared.text import count, literal

TABLE = "arms"
#: In pixels; the columns of free text share the rest.
_ENGINE_WIDTH, _METHOD_WIDTH, _TOKENS_WIDTH = 122, 138, 70
_DRAFTS = (
    "A folder or hub name; `reference-draft` and `reference-eagle3` are included. "
    "For look-up methods: the shortest and longest match in tokens (prompt_lookup_min and _max)"
)
_LABELS: tuple[Label, ...] = (
    ("Name", "stretch", None),
    ("Engine", _ENGINE_WIDTH, "Its name in the worker's engines.toml; endpoint: a server that is already running"),
    (
        "Method",
        _METHOD_WIDTH,
        "How tokens are drafted: the methods the engine supports, where a worker has reported them",
    ),
    ("Draft model", "stretch", _DRAFTS),
    ("k", _TOKENS_WIDTH, "Speculative tokens per round"),
)
_BASELINE = "arms-baseline"
#: In place of a row's number: the arm without speculation, whichever that is.
_DEFAULT_BASELINE = -1
_AREA = 96
_DETAILS, _METHOD_DETAILS = ("flags", "config", "environment"), ("options",)
#: How an option that is a list or a table is typed: its reader, and an example.
_TYPED: Mapping[Any, tuple[Callable[[str], Any], str]] = {
    schedule: (form_model.read_ranges, "1-4: 3, 5-512: 0"),
    lengths_by_batch: (form_model.read_sizes, "4: 3, 8: 2"),
    falling_shares: (form_model.read_numbers, "0.8, 0.5, 0.2"),
    whole_numbers: (form_model.read_numbers, "1, 2, 4"),
}


def edit(problems: Sequence[Problem], target: str) -> tuple[Row, ...]:
    with st.container(border=True, gap="xsmall"):
        head = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")
        with head:
            st.markdown("**Arms** :gray[– ways to serve the target]", width="content")
        rows = _rows(problems)
        with head:
            baseline = _baseline({number: row["name"] for number, row in rows.items()})
        _show_add_button(rows, target)
        row_widgets.show_problems(validation_messages.of_table(problems, TABLE), validation_messages.anchor(TABLE))
    return tuple(row | {"baseline": number == baseline} for number, row in rows.items())


def _rows(problems: Sequence[Problem]) -> dict[int, dict[str, Any]]:
    rows = {}
    row_widgets.show_header(TABLE, _LABELS)
    for place, (number, initial) in enumerate(row_widgets.rows(TABLE)):
        rows[number] = _row(RowWidgets(TABLE, number, initial))
        row_widgets.show_row_problems(problems, TABLE, place)
    return rows


def _show_add_button(rows: Mapping[int, Row], target: str) -> None:
    arms = list(rows.values())
    engine = (arms[-1]["engine"] if arms else None) or form_options.DEFAULT_ENGINE
    new = new_arm(arms, engine, form_options.methods(engine), target)
    st.button(
        "Add an arm", icon=":material/add:", type="tertiary", on_click=row_widgets.add, args=(TABLE, new), key="add-arm"
    )


def _baseline(names: Mapping[int, str]) -> int:
    """The number of the baseline's row, or `_DEFAULT_BASELINE`."""
    initial = next((number for number, row in row_widgets.rows(TABLE) if row.get("baseline")), _DEFAULT_BASELINE)
    options = [_DEFAULT_BASELINE, *names]
    with st.container(horizontal=True, vertical_alignment="center", width="content", gap="small"):
        st.caption("Baseline", width="content", help="The arm that the others are compared with")
        chosen: int = st.selectbox(
            "Baseline",
            options,
            options.index(initial) if initial in options else 0,
            format_func=lambda number: names.get(number, "the arm without speculation") or "(unnamed)",
            key=row_widgets.key(_BASELINE),
            label_visibility="collapsed",
            width=230,
        )
    return chosen


def _row(widgets: RowWidgets) -> dict[str, Any]:
    row: dict[str, Any] = {}
    with row_container():
        row["name"] = _name(widgets)
        row["engine"] = widgets.choice(
            "engine", "Engine", form_options.engine_names(), accept_new_options=True, required=True, width=_ENGINE_WIDTH
        )
        methods = [NO_SPECULATION, *form_options.methods(row["engine"])]
        row["method"] = widgets.choice("method", "Method", methods, required=True, width=_METHOD_WIDTH)
        row |= _drafting(widgets, row["method"])
        row["k"] = _tokens(widgets, row["method"])
        row |= widgets.hidden_values(*_DETAILS, *(() if row["method"] == NO_SPECULATION else _METHOD_DETAILS))
        if details := widgets.details("Flags, configuration file and environment of this arm"):
            with details:
                _show_details(widgets, row["engine"], row["method"])
                _show_copy_button(widgets, row)
        widgets.show_remove_button("arm")
    if form_options.is_endpoint(row["engine"]) or widgets.initial.get("base_url"):
        row |= _server(widgets)
    if summary := details_summary(row):
        st.caption(literal(summary))
    return row


def _name(widgets: RowWidgets) -> str:
    """The arm's name. One that is made from method and k follows them; one that was typed stays."""
    method = widgets.value("method")
    made = made_name(method, None if method == NO_SPECULATION else widgets.value("k") or FIRST_K)
    before = st.session_state.setdefault(widgets.key("made-name"), made)
    st.session_state[widgets.key("made-name")] = made
    if made != before and widgets.value("name") in (before, "", None):
        widgets.set_value("name", made)
    return widgets.settable_text("name", "Name", placeholder="a unique name")


def _drafting(widgets: RowWidgets, method: str | None) -> Row:
    """The draft model, or in the same place the shortest and longest match of a look-up method."""
    drafts_by = method_of(str(method))
    if drafts_by.looks_up:
        with row_container(wrap=False):
            lookup = {"lookup_min": widgets.count("lookup_min", "Shortest match", placeholder="shortest")}
            return lookup | {"lookup_max": widgets.count("lookup_max", "Longest match", placeholder="longest")}
    if method == NO_SPECULATION or drafts_by.draft_model == "refused":
        widgets.placeholder("no_model", "Draft model", "stretch")
        return {}
    placeholder = "a folder or hub name" if drafts_by.draft_model == "needed" else "none, or a folder or hub name"
    return {"draft_model": widgets.text("draft_model", "Draft model", placeholder=placeholder)}


def _tokens(widgets: RowWidgets, method: str | None) -> int | None:
    if method == NO_SPECULATION:
        widgets.placeholder("no_k", "k", _TOKENS_WIDTH)
        return None
    return widgets.count("k", "k", default=FIRST_K, width=_TOKENS_WIDTH)


def _server(widgets: RowWidgets) -> Row:
    with row_container():
        help_text = "Without /v1. The server is already running; nothing is started."
        row = {
            "base_url": widgets.text("base_url", "Server URL", inside=True, help=help_text, placeholder="http://…"),
            "served_model": widgets.text("served_model", "Served model", inside=True, placeholder="same as the target"),
        }
        help_text = "The NAME of a secret DRAFTHOUSE_SECRET_NAME on the worker's host, never the key itself."
        row["api_key"] = widgets.text("api_key", "API key secret", inside=True, placeholder="none", help=help_text)
        st.space(BUTTONS_WIDTH)
    return row


def _show_details(widgets: RowWidgets, engine: str | None, method: str | None) -> None:
    if method != NO_SPECULATION:
        _show_options(widgets, engine, method)
        label = "All options of the method (TOML)"
        widgets.area("options", label, _AREA, placeholder="draft_tensor_parallel_size = 1")
    widgets.area("flags", "Flags (TOML, one per line)", _AREA, placeholder="max-num-seqs = 8")
    widgets.area("config", "Engine configuration file (YAML)", _AREA, placeholder="kv-cache-dtype: fp8")
    widgets.area("environment", "Environment (NAME=value)", _AREA, placeholder="OMP_NUM_THREADS=1")


def _show_options(widgets: RowWidgets, engine: str | None, method: str | None) -> None:
    """Options by name with what each does, and a field for each that is set; the text below has them all."""
    offered = {option.name: option for option in form_options.speculation_options(engine, method)}
    if offered:
        _show_option_picker(widgets, offered)
    try:
        options = read_flags(widgets.value("options") or "")
    except UnreadableError:
        return
    for name, value in options.items():
        if name in offered:
            with row_container():
                _show_option(widgets, offered[name], value)
                widgets.show_cross(f"Remove {name}", f"remove-{name}", _set_option, (widgets, name, None))


def _show_option(widgets: RowWidgets, option: Option, value: Any) -> None:
    """The field of an option's kind, which shows and changes the value that the text has."""
    key, about = widgets.key(f"option-{option.name}"), option.about[:1].upper() + option.about[1:]
    label = option.name.replace("_", " ")
    reader, example = _TYPED.get(option.wrong, (str, ""))
    shared: dict[str, Any] = {
        "key": key,
        "help": about,
        "on_change": lambda: _set_option(widgets, option.name, _read(st.session_state.get(key), reader)),
    }
    if isinstance(option.wrong, OneOf):
        st.session_state[key] = value if value in option.wrong.words else None
        st.selectbox(label, option.wrong.words, **shared)
    elif isinstance(value, bool):
        st.session_state[key] = value
        st.toggle(label, **shared, width="stretch")
    elif isinstance(value, int | float) and row_widgets.fits_a_field(value):
        st.session_state[key] = value
        st.number_input(label, step=1 if isinstance(value, int) else 0.1, **shared)
    else:
        st.session_state[key] = form_model.list_text(value) if option.wrong in _TYPED else _plain_text(value)
        st.text_input(f"{label}, like {example}" if example else label, placeholder=example, **shared)


def _plain_text(value: Any) -> str:
    return value if isinstance(value, str) else form_model.flags_text({"value": value}).removeprefix("value = ")


def _read(entered: Any, reader: Callable[[str], Any]) -> Any:
    return reader(entered) if isinstance(entered, str) else entered


def _set_option(widgets: RowWidgets, name: str, value: Any) -> None:
    """Write the option's value into the text of all options; None takes it out."""
    widgets.set_value("options", with_option(widgets.value("options"), name, value))


def with_option(text: str | None, name: str, value: Any) -> str:
    """The options' text with this value of one of them, or without it (None)."""
    options = read_flags(text or "")
    return flags_text({key: of for key, of in (options | {name: value}).items() if of is not None})


def _show_option_picker(widgets: RowWidgets, offered: Mapping[str, Option]) -> None:
    """The option that is picked joins the text, with a value to change."""
    picker = widgets.key("add_option")

    def add_line() -> None:
        if option := offered.get(st.session_state.get(picker) or ""):
            widgets.set_value("options", with_line(widgets.value("options"), option.name, option.example))
        st.session_state[picker] = None

    st.selectbox(
        "Add an option of the method",
        list(offered),
        None,
        format_func=lambda name: f"{name}: {offered[name].about}" if name in offered else name,
        key=picker,
        on_change=add_line,
        placeholder="choose one",
    )


def with_line(text: str | None, name: str, example: str) -> str:
    """The options' text with one more line, unless it has that option already."""
    lines = (text or "").splitlines()
    has = any(line.partition("=")[0].strip() == name for line in lines)
    return "\n".join(lines if has else [*lines, example])


def _show_copy_button(widgets: RowWidgets, row: Row) -> None:
    copy = {**row, "name": f"{row['name']} copy"}
    st.button(
        "Copy this arm",
        icon=":material/content_copy:",
        key=widgets.key("copy"),
        on_click=row_widgets.add_after,
        args=(TABLE, widgets.number, copy),
    )


def details_summary(row: Row) -> str:
    """What the row's closed details hold: flags in full if they are short, the rest counted."""
    flags = ", ".join((row.get("flags") or "").splitlines())
    variables = len((row.get("environment") or "").splitlines())
    settings = len((row.get("config") or "").splitlines())
    parts = [
        flags if len(flags) <= 90 else count(len((row.get("flags") or "").splitlines()), "flag"),
        f"configuration file of {count(settings, 'line')}" if settings else "",
        count(variables, "variable") if variables else "",
        ", ".join((row.get("options") or "").splitlines()),
    ]
    return " · ".join(part for part in parts if part)
