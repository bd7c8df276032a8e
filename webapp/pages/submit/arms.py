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
from jobs.known_models import KnownDraft, known_drafts
from lab.study.methods import method_of, spoken_name
from lab.study.reference_pair import DRAFTS, TARGET
from webapp.pages.submit import form_options, inputs
from webapp.pages.submit.inputs import BUTTONS_WIDTH, Fields, ShownProblem, Width, row_container
from webapp.pages.submit.values import (
    NO_SPECULATION,
    Row,
    UnreadableError,
    flags_text,
    inline,
    list_text,
    read_flags,
    read_numbers,
    read_ranges,
    read_sizes,
)
from webapp.shared.text import count, literal

_METHOD, _MODEL, _K = "speculation.method", "speculation.model", "speculation.num_speculative_tokens"
_LOOKUP, _OPTIONS = ("speculation.prompt_lookup_min", "speculation.prompt_lookup_max"), "speculation.options"
_TEXTS = ("flags", "config", "environment")
#: Widths in pixels; the columns of free text share the rest.
_COLUMNS: Mapping[str, Width] = {"name": "stretch", "engine": 122, _METHOD: 138, _MODEL: "stretch", _K: 70}
_BASELINE = "arms-baseline"
#: Stands for the number of whichever row has no speculation.
_DEFAULT_BASELINE = -1
_AREA_HEIGHT = 96
#: The letters of a draft model's name that its field shows in a window of 1280 pixels.
_SHOWN_LETTERS = 32
#: Numbers of tokens that new arms get, in order of preference.
FIRST_K = 3
_NEXT_K = (FIRST_K, 5, 1, 2, 4, 6, 7, 8)
#: Parser and example of options that are lists or tables.
_TYPED: Mapping[Any, tuple[Callable[[str], Any], str]] = {
    schedule: (read_ranges, "1-4: 3, 5-512: 0"),
    lengths_by_batch: (read_sizes, "4: 3, 8: 2"),
    falling_shares: (read_numbers, "0.8, 0.5, 0.2"),
    whole_numbers: (read_numbers, "1, 2, 4"),
}


def edit(problems: Sequence[ShownProblem], target: str, engine_flags: str) -> tuple[Row, ...]:
    with st.container(border=True, gap="xsmall"):
        head = st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute")
        head.markdown("**Arms** :gray[– ways to serve the target]", width="content")
        keys = "In a row F1 shows help and F2 its other settings."
        inputs.show_skip("arms", f"{keys} Skip the arms", to="workloads", is_stop=True)
        rows = inputs.edit_rows("arms", _COLUMNS, _row, problems)
        _show_clear(rows, engine_flags)
        with head:
            baseline = _baseline({number: row["name"] for number, row in rows.items()})
        arms = list(rows.values())
        engine = (arms[-1]["engine"] if arms else None) or form_options.DEFAULT_ENGINE
        methods = form_options.methods(engine)
        new = new_arm(arms, engine, methods, target)
        with st.container(horizontal=True, vertical_alignment="center"):
            inputs.show_add_button("arms", "Add an arm", new)
            _show_known(engine, [draft for draft in known_drafts(target) if draft.method in methods])
        inputs.show_problems(problems, inputs.anchor("arms"))
    return tuple(row | {"baseline": number == baseline} for number, row in rows.items())


def _show_clear(rows: Mapping[int, Row], engine_flags: str) -> None:
    """Draw a button that clears the settings which a running server cannot be given, if there are any."""
    running = {number: row for number, row in rows.items() if form_options.is_endpoint(row["engine"])}
    fields = [f"arms-{number}-{path}" for number, row in running.items() for path in _TEXTS if row.get(path)]
    fields += ["engine_flags"] if engine_flags and len(running) == len(rows) else []

    def clear() -> None:
        for field in fields:
            st.session_state[inputs.key(field)] = ""

    if fields:
        label = "Clear what does not apply to a running server"
        st.button(label, icon=":material/ink_eraser:", key="clear-of-started", on_click=clear)


def _show_known(engine: str, drafts: Sequence[KnownDraft]) -> None:
    """Draw a choice of the draft models that are known for the target. The chosen one becomes a new arm."""
    if not drafts:
        return
    picker = inputs.key("known-draft")

    def add_arm() -> None:
        if (chosen := st.session_state.pop(picker, None)) is not None:
            arm = {"engine": engine, _METHOD: chosen.method, _MODEL: chosen.model, _K: FIRST_K}
            inputs.add("arms", {**arm, "name": f"{chosen.model.rpartition('/')[2]} k={FIRST_K}"})

    st.selectbox(
        "Add a draft model known for this target",
        drafts,
        None,
        format_func=lambda draft: f"{spoken_name(draft.method, None)}: {draft.label}",
        key=picker,
        on_change=add_arm,
        placeholder=f"or one of {count(len(drafts), 'draft model')} known for this target",
        label_visibility="collapsed",
        width=420,
        help="Named by their makers or by who measured them; nobody here has tried them",
    )


def _baseline(names: Mapping[int, str]) -> int:
    """Draw the choice of the baseline; return its row's number, or `_DEFAULT_BASELINE`."""
    initial = next((number for number, row in inputs.rows("arms") if row.get("baseline")), _DEFAULT_BASELINE)
    options = [_DEFAULT_BASELINE, *names]
    with st.container(horizontal=True, vertical_alignment="center", width="content", gap="small"):
        st.caption("Baseline", width="content", help="The arm that the others are compared with")
        chosen: int = st.selectbox(
            "Baseline",
            options,
            options.index(initial) if initial in options else 0,
            format_func=lambda number: names.get(number, "the arm without speculation") or "(unnamed)",
            key=inputs.key(_BASELINE),
            label_visibility="collapsed",
            width=230,
        )
    return chosen


def made_name(method: str | None, k: int | None) -> str:
    """Name a row after its method and number of tokens: `draft model k=3`."""
    return spoken_name(None, None) if method in (None, NO_SPECULATION) else spoken_name(method, k)


def new_arm(arms: Sequence[Row], engine: str, methods: Sequence[str], target: str) -> dict[str, Any]:
    """Return an arm to add: the last method of speculation with the first number of tokens that is free.

    `engine` is the last arm's, `methods` are its methods.
    """
    last = next((arm for arm in reversed(arms) if arm.get(_METHOD) not in (None, NO_SPECULATION)), None)
    drafts = {path: last.get(path) for path in (_METHOD, _MODEL, *_LOOKUP)} if last else _first_draft(methods, target)
    arm = {"engine": engine, **drafts}
    drafts_so = ("engine", _METHOD, _MODEL)
    same = [other for other in arms if all((other.get(path) or None) == (arm.get(path) or None) for path in drafts_so)]
    taken = {other.get(_K) for other in same}
    k = next((number for number in _NEXT_K if number not in taken), FIRST_K)
    return {**arm, _K: k, "name": made_name(arm[_METHOD], k)}


def _first_draft(methods: Sequence[str], target: str) -> dict[str, Any]:
    """Return the reference model's own draft, a draft model that is known for the target, or else a method of the
    engine that needs no draft model.
    """
    if target == TARGET and "draft_model" in methods:
        return {_METHOD: "draft_model", _MODEL: DRAFTS["draft_model"]}
    if (known := next((draft for draft in known_drafts(target) if draft.method in methods), None)) is not None:
        return {_METHOD: known.method, _MODEL: known.model}
    without_model = [method for method in methods if method_of(method).draft_model == "refused"]
    return {_METHOD: next(iter([*without_model, *methods]), "ngram")}


#: How an unusual server is reached.
_SERVER_MORE = ("server.api_path", "server.api_key_header", "server.ca_file", "server.proxy")


def _row(fields: Fields) -> dict[str, Any]:
    with row_container():
        row = {"name": _name(fields)}
        engines = form_options.engine_names()
        row["engine"] = _draw(fields, "engine", offered=dict(zip(engines, engines, strict=True)))
        methods = [NO_SPECULATION, *form_options.methods(row["engine"])]
        offered = dict(zip(methods, methods, strict=True))
        row[_METHOD] = _draw(fields, _METHOD, offered=offered, accept_new_options=False)
        speculates = row[_METHOD] != NO_SPECULATION
        row |= _draft(fields, str(row[_METHOD]))
        if speculates:
            row[_K] = _draw(fields, _K, first=FIRST_K)
        else:
            fields.show_disabled(_K, _COLUMNS[_K])
        texts = (_OPTIONS, *_TEXTS) if speculates else _TEXTS
        if details := fields.details("Flags, configuration file and environment of this arm"):
            with details:
                if speculates:
                    _show_options(fields, row["engine"], row[_METHOD])
                for path in texts:
                    fields.draw(path, height=_AREA_HEIGHT)
                with row_container():
                    _show_copy_button(fields, {**row, **fields.values(*texts), "name": f"{row['name']} copy"})
                    fields.show_remove_detail("arm")
        row |= fields.values(*texts)
        fields.show_remove_button("arm")
    if form_options.is_endpoint(row["engine"]) or fields.initial.get("server.base_url"):
        with row_container():
            row |= {path: fields.draw(path) for path in ("server.base_url", "server.served_model", "server.api_key")}
            st.space(BUTTONS_WIDTH)
        with row_container():
            row |= {path: fields.draw(path) for path in _SERVER_MORE}
            st.space(BUTTONS_WIDTH)
    summary = [row[_MODEL]] if _is_cut(fields, row.get(_MODEL) or "") else []
    if summary := [*summary, *filter(None, [details_summary(row)])]:
        st.caption(literal(" · ".join(summary)))
    return row


def _is_cut(fields: Fields, model: str) -> bool:
    """Return whether the field shows only the beginning of the name, which is not below an earlier arm."""
    rows = inputs.rows("arms")
    above = rows[: [number for number, _ in rows].index(fields.number)]
    named = [Fields(fields.model, row, table="arms", number=number).value(_MODEL) for number, row in above]
    return len(model) > _SHOWN_LETTERS and model not in named


def _draw(fields: Fields, path: str, **options: Any) -> Any:
    return fields.draw(path, in_row=True, width=_COLUMNS[path], **options)


def _name(fields: Fields) -> str:
    """Draw the arm's name. A generated name follows method and k; a typed name stays."""
    method = fields.value(_METHOD)
    made = made_name(method, None if method == NO_SPECULATION else fields.value(_K) or FIRST_K)
    before = st.session_state.setdefault(fields.key("made-name"), made)
    fields.set_value("made-name", made)
    if made != before and fields.value("name") in (before, "", None):
        fields.set_value("name", made)
    return str(_draw(fields, "name"))


def _draft(fields: Fields, method: str) -> dict[str, Any]:
    """Draw the draft model, or instead the shortest and longest match of a look-up method."""
    drafts_by = method_of(method)
    if drafts_by.looks_up:
        with row_container(wrap=False):
            return {path: fields.draw(path, in_row=True) for path in _LOOKUP}
    if method == NO_SPECULATION or drafts_by.draft_model == "refused":
        fields.show_disabled(_MODEL, "stretch")
        return {}
    needed = {"placeholder": "a folder or hub name"} if drafts_by.draft_model == "needed" else {}
    return {_MODEL: _draw(fields, _MODEL, **needed)}


def _show_options(fields: Fields, engine: str | None, method: str | None) -> None:
    """Draw a list of options to add, and a field for each option in the text of all options."""
    offered = {option.name: option for option in form_options.speculation_options(engine, method)}
    if offered:
        _show_option_picker(fields, offered)
    try:
        options = read_flags(fields.value(_OPTIONS) or "")
    except UnreadableError:
        return
    for name, value in options.items():
        if name in offered:
            with row_container():
                _show_option(fields, offered[name], value)
                fields.show_cross(f"Remove {name}", f"remove-{name}", _set_option, (fields, name, None))


def _show_option(fields: Fields, option: Option, value: Any) -> None:
    """Draw the field of an option, which shows and changes its value in the text of all options."""
    key = fields.key(f"option-{option.name}")
    label = option.name.replace("_", " ")
    reader, example = _TYPED.get(option.wrong, (str, ""))

    def take() -> None:
        entered = st.session_state.get(key)
        _set_option(fields, option.name, reader(entered) if isinstance(entered, str) else entered)

    shared: dict[str, Any] = {"key": key, "help": option.about[:1].upper() + option.about[1:], "on_change": take}
    if isinstance(option.wrong, OneOf):
        st.session_state[key] = value if value in option.wrong.words else None
        st.selectbox(label, option.wrong.words, **shared)
    elif isinstance(value, bool):
        st.session_state[key] = value
        st.toggle(label, **shared, width="stretch")
    elif isinstance(value, int | float) and inputs.fits_a_field(value):
        st.session_state[key] = value
        st.number_input(label, step=1 if isinstance(value, int) else 0.1, **shared)
    else:
        is_text = isinstance(value, str)
        st.session_state[key] = value if is_text else (list_text if option.wrong in _TYPED else inline)(value)
        st.text_input(f"{label}, like {example}" if example else label, placeholder=example, **shared)


def _set_option(fields: Fields, name: str, value: Any) -> None:
    """Write the option's value into the text of all options; None removes the option."""
    options = read_flags(fields.value(_OPTIONS) or "") | {name: value}
    fields.set_value(_OPTIONS, flags_text({key: of for key, of in options.items() if of is not None}))


def _show_option_picker(fields: Fields, offered: Mapping[str, Option]) -> None:
    """Draw a list of options; the chosen one is added to the text with its example, unless the text has it already."""
    picker = fields.key("add_option")

    def add_line() -> None:
        lines = (fields.value(_OPTIONS) or "").splitlines()
        option = offered.get(st.session_state.get(picker) or "")
        if option and not any(line.partition("=")[0].strip() == option.name for line in lines):
            fields.set_value(_OPTIONS, "\n".join([*lines, option.example]))
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


def _show_copy_button(fields: Fields, copy: Row) -> None:
    st.button(
        "Copy this arm",
        icon=":material/content_copy:",
        key=fields.key("copy"),
        on_click=lambda: inputs.add("arms", copy, after=fields.number),
    )


def details_summary(row: Row) -> str:
    """Summarise the row's closed details: flags in full if they are short, the rest counted."""
    flags, variables, settings = (
        len((row.get(path) or "").splitlines()) for path in ("flags", "environment", "config")
    )
    listed = ", ".join((row.get("flags") or "").splitlines())
    parts = [
        listed if len(listed) <= 90 else count(flags, "flag"),
        f"configuration file of {count(settings, 'line')}" if settings else "",
        count(variables, "variable") if variables else "",
        ", ".join((row.get(_OPTIONS) or "").splitlines()),
    ]
    return " · ".join(part for part in parts if part)
