"""The inputs of the Submit form, drawn from the fields of the study's models, with the problems beside them.

Each row of a table has widget keys of its own, so that adding or removing one leaves what was typed into the others.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import streamlit as st
from pydantic import BaseModel
from streamlit.delta_generator import DeltaGenerator

from lab.study import Study
from lab.study.model_base import Input
from webapp.pages.submit.values import BUDGET, FIELDS, TABLES, TEXTS, Problem, Row, field_of
from webapp.shared.text import sentence_html

_ROWS, _VERSION, _NEXT = "submit-rows", "submit-version", "submit-next-row"
#: `persist_state` of a widget that keeps what was typed while it is not drawn.
PERSIST: Literal["page"] = "page"
#: In pixels: the two buttons at the end of a row, and both with the gap between them.
_OPEN_WIDTH, _REMOVE_WIDTH = 48, 34
BUTTONS_WIDTH = _OPEN_WIDTH + _REMOVE_WIDTH + 8
_DETAILS_WIDTH = 400
_LARGEST = 2**53 - 1
#: In pixels, or an equal share of the space that is left.
Width = int | Literal["stretch"]
#: The path of a row's field: its table, its index and the rest.
ROW = re.compile(r"^(arms|workloads|loads)\[(\d+)\]\.?(.*)$")
ELSEWHERE = "problem-elsewhere"


@dataclass(frozen=True)
class ShownProblem:
    """A problem as shown in the list, and next to the form element that it concerns."""

    anchor: str  # the id of that element
    where: str  # like `Arm 2, draft model`
    sentence: str
    beside: str


def shown_problem(problem: Problem) -> ShownProblem:
    path, sentence = problem
    if row := ROW.match(path):
        label = _label(TABLES[row[1]], row[3])
        where = f"{row[1].removesuffix('s').capitalize()} {int(row[2]) + 1}" + (f", {label}" if label else "")
        beside = f"{label}: {sentence}" if label else sentence
        return ShownProblem(anchor(row[1], int(row[2])), where, sentence, beside)
    if table := next((table for table in TABLES if re.match(rf"{table}\b", path or sentence)), None):
        about = sentence.removeprefix(f"{table}: ")
        return ShownProblem(anchor(table), table.capitalize(), about, about)
    field = next((field for field in FIELDS if f"{path}.".startswith(f"{field}.")), None)
    if field is None:
        return ShownProblem(ELSEWHERE, path or "Study", sentence, f"{path}: {sentence}" if path else sentence)
    label = _label(Study, field)
    beside = f"{path.removeprefix(field).lstrip('.')} {sentence}".strip()
    return ShownProblem(anchor(field), label[0].upper() + label[1:], sentence, beside)


def _label(model: type[BaseModel], path: str) -> str:
    """Return a field's label: `speculation.model` is the draft model; `flags.x` becomes `flags, x`."""
    try:
        info, rest = field_of(model, path)
    except KeyError:  # in a text, where any key may stand
        return path.replace("_", " ")
    title = re.split(r" \(|: ", str(info.title))[0]
    label = title if title[1:2].isupper() else title[0].lower() + title[1:]
    return f"{label}, {rest}" if rest else label


def anchor(table_or_field: str, index: int | None = None) -> str:
    """Return the id of the element that shows the problems of a field, of a row (counted from 0), or of a table."""
    name = table_or_field.replace(".", "-")
    return f"problem-{name}" if index is None else f"problem-{name}-{index}"


def show_skip(part: str, label: str, to: str, *, is_stop: bool = False) -> None:
    """Show a link, only while it has the focus, to the link that was shown for the part `to`. Unless it `is_stop`, only
    another such link leads to it, not Tab.
    """
    index = "" if is_stop else ' tabindex="-1"'
    st.html(f'<a class="skip" id="skip-{part}" href="#skip-{to}"{index}>{html.escape(label)}</a>')


def show_problems(problems: Sequence[ShownProblem], beside: str) -> None:
    """Show the problems of the element `beside`, if it has any; the list of problems links to them."""
    show_sentences([problem.beside for problem in problems if problem.anchor == beside], beside)


def show_sentences(sentences: Sequence[str], anchor_: str) -> None:
    if sentences:
        lines = "<br>".join(map(sentence_html, sentences))
        st.html(f'<div class="problem" id="{anchor_}" tabindex="-1">{lines}</div>')


def begin(**tables: Sequence[Row]) -> None:
    """Fill the form with these rows, under new widget keys: what was typed before is forgotten."""
    st.session_state[_VERSION] = st.session_state.get(_VERSION, 0) + 1
    st.session_state[_ROWS] = {table: list(enumerate(rows)) for table, rows in tables.items()}
    st.session_state[_NEXT] = max((len(rows) for rows in tables.values()), default=0)


def key(field: str) -> str:
    return f"submit-{st.session_state[_VERSION]}-{field}"


def rows(table: str) -> list[tuple[int, Row]]:
    """Return each row's number, which is never used again, and its initial values."""
    numbered: list[tuple[int, Row]] = st.session_state[_ROWS][table]
    return numbered


def add(table: str, *new: Row, after: int | None = None) -> None:
    """Add rows at the end, or after the row of this number."""
    numbers = [number for number, _ in rows(table)]
    index = len(numbers) if after is None else numbers.index(after) + 1
    rows(table)[index:index] = enumerate(new, start=st.session_state[_NEXT])
    st.session_state[_NEXT] += len(new)


def _remove(table: str, number: int) -> None:
    st.session_state[_ROWS][table] = [row for row in rows(table) if row[0] != number]


def fits_a_field(value: float | None) -> bool:
    """Return whether a browser's number field can show the value; any other breaks the whole page."""
    return value is None or (math.isfinite(value) and abs(value) <= _LARGEST)


def _shown_number(value: Any) -> Any:
    """Return the number, or the nearest that a field can show, which the study's validation refuses too."""
    if fits_a_field(value):
        return value
    return type(value)(0 if math.isnan(value) else max(-_LARGEST, min(value, _LARGEST)))


def nearest(entered: Any, offered: Sequence[Any]) -> Any:
    """Return the offered text that begins with what was entered, or else contains it; what was entered if it is offered
    itself, is a path, or is in none.
    """
    if not isinstance(entered, str) or entered in offered or "/" in entered or entered.startswith((".", "~")):
        return entered
    typed, texts = entered.casefold(), [text for text in offered if isinstance(text, str)]
    containing = [text for text in texts if typed in text.casefold()]
    return next(iter(sorted(containing, key=lambda text: not text.casefold().startswith(typed))), entered)


def row_container(**options: Any) -> DeltaGenerator:
    """Put the fields of a row side by side. Columns would add eight elements a row to the page."""
    return st.container(horizontal=True, gap="xsmall", vertical_alignment="center", **options)


def edit_rows(
    table: str,
    columns: Mapping[str, Width],
    edit: Callable[[Fields], dict[str, Any]],
    problems: Sequence[ShownProblem],
) -> dict[int, dict[str, Any]]:
    """Draw the labels above the columns, then each row with its problems; return the rows by number.

    `static/form.css` gives a label that stretches as much of the space as the fields below it.
    """
    with row_container(key=f"submit-labels-{table}"):
        for path, width in columns.items():
            info, _ = field_of(TABLES[table], path)
            st.markdown(f":small[{info.title}]", width=width, help=info.description)
        st.space(BUTTONS_WIDTH)
    edited = {}
    for index, (number, initial) in enumerate(rows(table)):
        edited[number] = edit(Fields(TABLES[table], initial, table=table, number=number))
        show_problems(problems, anchor(table, index))
    return edited


def show_add_button(table: str, label: str, new: Row) -> None:
    name = f"add-{table.removesuffix('s')}"
    st.button(label, icon=":material/add:", type="tertiary", on_click=add, args=(table, new), key=name)


@dataclass(frozen=True)
class Fields:
    """The fields of the study itself, or of one row, and what they were filled with."""

    model: type[BaseModel]
    initial: Row
    problems: Sequence[ShownProblem] = ()  # of the study's own fields; a row's problems are shown below it
    table: str = ""
    number: int = 0

    def key(self, path: str) -> str:
        return key(f"{self.table}-{self.number}-{path}" if self.table else path)

    def value(self, path: str) -> Any:
        """Return what the field shows now, or will show when it is drawn."""
        return st.session_state.get(self.key(path), self.initial.get(path))

    def values(self, *paths: str) -> dict[str, Any]:
        """Return the values of fields, whether these are drawn or not."""
        return {path: self.value(path) for path in paths}

    def set_value(self, path: str, value: Any) -> None:
        """Change a field's value, in a callback or before the field is drawn."""
        st.session_state[self.key(path)] = value

    def draw(
        self,
        path: str,
        *,
        offered: Mapping[Any, str] | None = None,
        first: Any = None,
        optional: bool = False,
        in_row: bool = False,
        **options: Any,
    ) -> Any:
        """Draw the input for the field's type, with its problems below, and return its value. `offered`: values to
        choose from, with their labels; a text field accepts others, too. `first`: the value to begin with if there is
        none. `optional`: it may be empty though it has a default. `in_row`: the label stands above the column.
        """
        info, _ = field_of(self.model, path)
        types = (info.annotation, *get_args(info.annotation))
        shown = next((of for of in info.metadata if isinstance(of, Input)), Input())
        title = str(info.title)
        literal = next((get_args(of) for of in types if get_origin(of) is Literal), ())
        choices = shown.choices or dict(zip(literal, literal, strict=True))
        about = {"label_visibility": "collapsed"} if in_row else {"help": info.description}
        options = {"key": self.key(path), "persist_state": PERSIST, **about, **options}
        if bool not in types or choices:
            options.setdefault("placeholder", shown.placeholder)
        optional = optional or type(None) in types
        value = first if (filled := self.initial.get(path)) is None else filled
        value = info.get_default() if value is None and not (optional or info.is_required()) else value
        if offered is not None or choices:
            self._begin(path, value)
            options = {"accept_new_options": not choices, **options}
            entered = self._choose(path, title, choices if offered is None else offered, optional=optional, **options)
        elif bool in types:
            self._begin(path, bool(value))
            entered = st.toggle(title, **options)
        elif (int in types and path != BUDGET) or float in types:
            as_float = {"step": shown.step, "format": "%g"} if float in types else {"step": 1}
            entered = self._enter_number(path, title, value, optional=optional, **as_float, **options)
        else:
            self._begin(path, value or "")
            text_format = TEXTS.get(path.rpartition(".")[2])
            label = title if text_format is None else f"{title} ({text_format.name})"
            entered = (st.text_input if text_format is None else st.text_area)(label, **options)
        show_problems(self.problems, anchor(path))
        return entered

    def _begin(self, path: str, value: Any) -> None:
        st.session_state.setdefault(self.key(path), value)

    def _choose(self, path: str, title: str, labels: Mapping[Any, str], *, optional: bool, **options: Any) -> Any:
        """Draw a choice. The current value stays on offer even if it is not (yet) among the choices."""
        current = self.value(path)
        offered = list(labels if current is None else dict.fromkeys([*labels, current]))
        if options.get("accept_new_options"):
            then, args = options.get("on_change"), options.get("args", ())
            options |= {"on_change": self._take_nearest, "args": (path, list(labels), then, args)}
        index = None if optional or current is None else 0  # the field's value is in the session's state
        return st.selectbox(title, offered, index, lambda value: labels.get(value, str(value)), **options)

    def _take_nearest(
        self, path: str, offered: Sequence[Any], then: Callable[..., None] | None, args: tuple[Any, ...]
    ) -> None:
        """Replace a beginning that was typed by the value it stands for: Enter takes it as a value of its own."""
        self.set_value(path, nearest(self.value(path), offered))
        if then is not None:
            then(*args)

    def _enter_number(self, path: str, title: str, value: Any, *, optional: bool, **options: Any) -> Any:
        """Draw a number. An optional field can be emptied; any other falls back on its first value."""
        if value is not None:
            value = type(options["step"])(_shown_number(value))
        if optional:
            self._begin(path, value)
        return st.number_input(title, value=None if optional else value, **options)

    def show_disabled(self, path: str, width: Width, text: str = "–") -> None:
        """Draw a disabled field in place of one that does not apply to this row."""
        info, _ = field_of(self.model, path)
        name = self.key(f"no-{path}-{text}")
        st.text_input(str(info.title), text, disabled=True, key=name, label_visibility="collapsed", width=width)

    def details(self, help_text: str) -> DeltaGenerator | None:
        """Return where to draw the row's details, or None while they are closed. F2 in a field of the row opens them
        (`server/field_help`).
        """
        popover = st.popover(
            help_text,
            icon=":material/tune:",
            help=help_text,
            width=_OPEN_WIDTH,
            key=self.key("details"),
            on_change="rerun",
        )
        return popover.container(width=_DETAILS_WIDTH) if popover.open else None

    def show_remove_button(self, noun: str) -> None:
        """Draw the cross at the end of a row. The Tab key skips it (`server/field_help`)."""
        self.show_cross(f"Remove this {noun}", "remove", _remove, (self.table, self.number))

    def show_remove_detail(self, noun: str) -> None:
        """Draw the same among the row's details, for the keyboard."""
        key, args = self.key("drop"), (self.table, self.number)
        st.button(f"Remove this {noun}", icon=":material/close:", key=key, on_click=_remove, args=args)

    def show_cross(self, label: str, name: str, on_click: Callable[..., None], args: tuple[Any, ...]) -> None:
        """Draw a small button that removes something."""
        st.button(
            label,
            icon=":material/close:",
            help=label,
            type="tertiary",
            width=_REMOVE_WIDTH,
            key=self.key(name),
            on_click=on_click,
            args=args,
        )
