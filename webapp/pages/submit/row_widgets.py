"""Rows of the submit page's form that come and go: each has keys of its own, so that the others keep what was typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import streamlit as st

from webapp.pages.submit import validation_messages
from webapp.pages.submit.form_model import Row
from webapp.pages.submit.validation_messages import Problem
from webapp.shared.text import literal

_ROWS, _VERSION, _NEXT = "submit-rows", "submit-version", "submit-next-row"
#: How long a field that is not drawn keeps what was typed.
KEPT: Literal["page"] = "page"


def begin(**tables: Sequence[Row]) -> None:
    """New keys for every widget of the form: they start from these rows and forget the old ones."""
    st.session_state[_VERSION] = st.session_state.get(_VERSION, 0) + 1
    st.session_state[_ROWS] = {table: list(enumerate(rows)) for table, rows in tables.items()}
    st.session_state[_NEXT] = max((len(rows) for rows in tables.values()), default=0)


def key(field: str) -> str:
    return f"submit-{st.session_state[_VERSION]}-{field}"


def rows(table: str) -> list[tuple[int, Row]]:
    """The rows' numbers, which never come again, and what each began with."""
    found: list[tuple[int, Row]] = st.session_state[_ROWS][table]
    return found


def add(table: str, *new: Row) -> None:
    """Behind the last one."""
    for row in new:
        st.session_state[_ROWS][table].append((st.session_state[_NEXT], row))
        st.session_state[_NEXT] += 1


def add_after(table: str, number: int, row: Row) -> None:
    add(table, row)
    numbers = [each for each, _ in rows(table)]
    rows(table).insert(numbers.index(number) + 1, rows(table).pop())


def remove(table: str, number: int) -> None:
    st.session_state[_ROWS][table] = [row for row in rows(table) if row[0] != number]


def say(sentences: Sequence[str]) -> None:
    for sentence in sentences:
        st.markdown(f":red[:material/error: {literal(sentence)}]")


def say_row(problems: Sequence[Problem], table: str, place: int) -> None:
    say(validation_messages.of_row(problems, table, place))
