"""Rows of the Submit page's form: adding and removing them, and the widgets of one row while it is drawn.

Each row has widget keys of its own, so that adding or removing one leaves what was typed into the others.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from webapp.pages.submit import validation_messages
from webapp.pages.submit.form_model import Row
from webapp.pages.submit.validation_messages import Problem

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
#: The header of a column: its label, as wide as the fields below, and a help text.
Label = tuple[str, Width, str | None]


def begin(**tables: Sequence[Row]) -> None:
    """Fill the form with these rows, under new widget keys: what was typed before is forgotten."""
    st.session_state[_VERSION] = st.session_state.get(_VERSION, 0) + 1
    st.session_state[_ROWS] = {table: list(enumerate(rows)) for table, rows in tables.items()}
    st.session_state[_NEXT] = max((len(rows) for rows in tables.values()), default=0)


def key(field: str) -> str:
    return f"submit-{st.session_state[_VERSION]}-{field}"


def rows(table: str) -> list[tuple[int, Row]]:
    """Each row's number, which is never used again, and its initial values."""
    numbered: list[tuple[int, Row]] = st.session_state[_ROWS][table]
    return numbered


def add(table: str, *new: Row) -> None:
    """Append rows."""
    for row in new:
        st.session_state[_ROWS][table].append((st.session_state[_NEXT], row))
        st.session_state[_NEXT] += 1


def add_after(table: str, number: int, row: Row) -> None:
    add(table, row)
    numbers = [other for other, _ in rows(table)]
    rows(table).insert(numbers.index(number) + 1, rows(table).pop())


def fits_a_field(value: float | None) -> bool:
    """Whether a browser's number field can show it: of anything else it makes an error of the whole page."""
    return value is None or (math.isfinite(value) and abs(value) <= _LARGEST)


def shown_number(value: Any) -> Any:
    """The number, or the nearest that a field can show: the check of the study refuses that, too."""
    if value is None or fits_a_field(value):
        return value
    return type(value)(0 if math.isnan(value) else max(-_LARGEST, min(value, _LARGEST)))


def remove(table: str, number: int) -> None:
    st.session_state[_ROWS][table] = [row for row in rows(table) if row[0] != number]


def show_problems(sentences: Sequence[str], anchor: str) -> None:
    """Show sentences, if there are any, in an element that the list of problems links to."""
    if sentences:
        lines = "<br>".join(html.escape(sentence) for sentence in sentences)
        st.html(f'<div class="problem" id="{anchor}" tabindex="-1">{lines}</div>')


def show_row_problems(problems: Sequence[Problem], table: str, place: int) -> None:
    anchor = validation_messages.anchor(table, place)
    show_problems(validation_messages.of_row(problems, table, place), anchor)


def row_container(**options: Any) -> DeltaGenerator:
    """The fields of one row side by side. Columns would cost the browser eight more elements a row."""
    return st.container(horizontal=True, gap="xsmall", vertical_alignment="center", **options)


def show_header(table: str, labels: Sequence[Label]) -> None:
    """The labels above the columns; `static/form.css` shares the space among those that stretch."""
    with row_container(key=f"submit-labels-{table}"):
        for label, width, help_text in labels:
            st.markdown(f":small[{label}]", width=width, help=help_text)
        st.space(BUTTONS_WIDTH)


@dataclass(frozen=True)
class RowWidgets:
    """The widgets of one row. Column labels stand above the table; widgets in the details (`inside`) show their own."""

    table: str
    number: int
    initial: Row

    def key(self, column: str) -> str:
        return key(f"{self.table}-{self.number}-{column}")

    def text(self, column: str, label: str, **options: Any) -> str:
        value = self.initial.get(column) or ""
        return st.text_input(label, value, key=self.key(column), **self._options(options)) or ""

    def settable_text(self, column: str, label: str, **options: Any) -> str:
        """A text that `set_value` may change."""
        st.session_state.setdefault(self.key(column), self.initial.get(column) or "")
        return st.text_input(label, key=self.key(column), **self._options(options)) or ""

    def value(self, column: str) -> Any:
        """What the field shows now, or will show when it is drawn."""
        return st.session_state.get(self.key(column), self.initial.get(column))

    def set_value(self, column: str, value: Any) -> None:
        """In a callback, or before a settable text or a choice is drawn."""
        st.session_state[self.key(column)] = value

    def count(self, column: str, label: str, default: int | None = None, **options: Any) -> int | None:
        """A whole number, or None if the field is empty. `default`: what it begins with if the row has none."""
        value: int | None = shown_number(self.initial.get(column) or default)
        entered = st.number_input(label, value=value, step=1, key=self.key(column), **self._options(options))
        return None if entered is None else int(entered)

    def number_field(self, column: str, label: str, step: float = 0.5, **options: Any) -> float | None:
        """A number, or None if the field is empty; `set_value` may change it."""
        initial = shown_number(self.initial.get(column))
        st.session_state.setdefault(self.key(column), None if initial is None else float(initial))
        options = self._options(options)
        entered = st.number_input(label, value=None, step=step, format="%g", key=self.key(column), **options)
        return None if entered is None else float(entered)

    def choice(self, column: str, label: str, choices: Sequence[str], **options: Any) -> str | None:
        """One of the choices, or the current value, which stays even if it is not (yet) among the choices."""
        current: str | None = st.session_state.setdefault(self.key(column), self.initial.get(column) or None)
        offered = [*choices, *([current] if current is not None and current not in choices else [])]
        chosen: str | None = st.selectbox(label, offered, None, key=self.key(column), **self._options(options))
        return chosen

    def area(self, column: str, label: str, height: int, **options: Any) -> None:
        """A text area in the row's details, which `set_value` may change."""
        st.session_state.setdefault(self.key(column), self.initial.get(column) or "")
        st.text_area(label, height=height, key=self.key(column), persist_state=PERSIST, **options)

    def toggle(self, column: str, label: str, *, default: bool, **options: Any) -> None:
        """A switch in the row's details."""
        value = bool(self.initial.get(column, default))
        st.toggle(label, value, key=self.key(column), persist_state=PERSIST, **options)

    def hidden_values(self, *columns: str) -> Row:
        """The values of fields in the row's details, whether these are open or not."""
        return {column: self.value(column) for column in columns}

    def placeholder(self, column: str, label: str, width: Width, text: str = "–") -> None:
        """A disabled field in place of a column that does not apply to this row."""
        key = self.key(f"{column}-{text}")
        st.text_input(label, text, disabled=True, key=key, label_visibility="collapsed", width=width)

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        if options.pop("inside", False):
            return {**options, "persist_state": PERSIST}
        return {**options, "label_visibility": "collapsed"}

    def details(self, help_text: str) -> DeltaGenerator | None:
        """Where to draw the row's details, or None while they are closed: closed ones cost the browser nothing."""
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
        self.show_cross(f"Remove this {noun}", "remove", remove, (self.table, self.number))

    def show_cross(self, label: str, column: str, on_click: Callable[..., None], args: tuple[Any, ...]) -> None:
        """A small button that removes something."""
        st.button(
            label,
            icon=":material/close:",
            help=label,
            type="tertiary",
            width=_REMOVE_WIDTH,
            key=self.key(column),
            on_click=on_click,
            args=args,
        )
