"""One row of the submit page's form while it is drawn: its fields beside each other, its details, its way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from webapp.pages.submit import row_widgets
from webapp.pages.submit.form_model import Row

#: Of the two buttons at the end of a row, in pixels, and of both with what is between them.
_OPEN_WIDTH, _REMOVE_WIDTH = 48, 34
BUTTONS_WIDTH = _OPEN_WIDTH + _REMOVE_WIDTH + 8
_DETAILS_WIDTH = 400
#: In pixels, or an equal share of what the others leave.
Width = int | Literal["stretch"]
#: Above a column of fields: the words, as wide as the fields, and what there is to say of them.
Label = tuple[str, Width, str | None]


def beside(**options: Any) -> DeltaGenerator:
    """Where the fields of one row stand. Columns of a row would be eight elements more for the browser."""
    return st.container(horizontal=True, gap="xsmall", vertical_alignment="center", **options)


def header(table: str, labels: Sequence[Label]) -> None:
    """The labels above the rows' fields. How they share what the others leave is said in `static/form.css`."""
    with beside(key=f"submit-labels-{table}"):
        for label, width, said in labels:
            st.markdown(f":small[{label}]", width=width, help=said)
        st.space(BUTTONS_WIDTH)


@dataclass(frozen=True)
class Line:
    """One row while it is drawn. Its labels stand above the columns, those in its details (`inside`) beside them."""

    table: str
    number: int
    initial: Row

    def key(self, column: str) -> str:
        return row_widgets.key(f"{self.table}-{self.number}-{column}")

    def text(self, column: str, label: str, **options: Any) -> str:
        value = self.initial.get(column) or ""
        return st.text_input(label, value, key=self.key(column), **self._head(options)) or ""

    def count(self, column: str, label: str, **options: Any) -> int | None:
        """A whole number, or None where nothing is typed."""
        value: int | None = self.initial.get(column)
        given = st.number_input(label, value=value, step=1, key=self.key(column), **self._head(options))
        return None if given is None else int(given)

    def figure(self, column: str, label: str, step: float = 0.5, **options: Any) -> float | None:
        value = self.initial.get(column)
        start = None if value is None else float(value)
        given = st.number_input(label, value=start, step=step, format="%g", key=self.key(column), **self._head(options))
        return None if given is None else float(given)

    def choice(self, column: str, label: str, choices: Sequence[str], **options: Any) -> str | None:
        """One of the choices, or what was typed or begun with: nothing is changed because it is not offered (yet)."""
        initial: str | None = self.initial.get(column) or None
        now: str | None = st.session_state.get(self.key(column)) or initial
        offered = [*choices, *([now] if now is not None and now not in choices else [])]
        index = offered.index(initial) if initial in offered else None
        chosen: str | None = st.selectbox(label, offered, index, key=self.key(column), **self._head(options))
        return chosen

    def area(self, column: str, label: str, height: int, **options: Any) -> None:
        """In a row's details, always with its label."""
        value = self.initial.get(column) or ""
        st.text_area(label, value, height=height, key=self.key(column), persist_state=row_widgets.KEPT, **options)

    def toggle(self, column: str, label: str, *, otherwise: bool, **options: Any) -> None:
        """In a row's details. `otherwise`: how it stands where the row does not say."""
        value = bool(self.initial.get(column, otherwise))
        st.toggle(label, value, key=self.key(column), persist_state=row_widgets.KEPT, **options)

    def within(self, *columns: str) -> Row:
        """What the fields of the row's details hold, which are drawn only while these are open."""
        return {column: st.session_state.get(self.key(column), self.initial.get(column)) for column in columns}

    def blank(self, column: str, label: str, width: Width, text: str = "–") -> None:
        """Nothing to fill in here, as another column of the row says."""
        key = self.key(f"{column}-{text}")
        st.text_input(label, text, disabled=True, key=key, label_visibility="collapsed", width=width)

    def _head(self, options: dict[str, Any]) -> dict[str, Any]:
        if options.pop("inside", False):
            return {**options, "persist_state": row_widgets.KEPT}
        return {**options, "label_visibility": "collapsed"}


def details(line: Line, said: str) -> DeltaGenerator | None:
    """Where to draw what most rows leave as it is, while the reader has it open: a page of closed ones is light."""
    popover = st.popover(
        "", icon=":material/tune:", help=said, width=_OPEN_WIDTH, key=line.key("details"), on_change="rerun"
    )
    return popover.container(width=_DETAILS_WIDTH) if popover.open else None


def remove_button(line: Line, noun: str) -> None:
    st.button(
        "",
        icon=":material/close:",
        help=f"Remove this {noun}",
        type="tertiary",
        width=_REMOVE_WIDTH,
        key=line.key("remove"),
        on_click=row_widgets.remove,
        args=(line.table, line.number),
    )
