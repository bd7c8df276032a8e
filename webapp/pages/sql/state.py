"""What the SQL page holds: a question and how its answer is drawn, kept under the id that its link carries."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st

from warehouse.app_db import saved_views
from webapp.charts.custom import Drawn
from webapp.pages.sql.examples import EXAMPLES
from webapp.shared import published_data
from webapp.shared.url_params import QUERY

PAGE = "sql"
TEXT = "sql-text"
_DRAWN, _LINK = "sql-drawn", "sql-link"


@dataclass(frozen=True)
class Question:
    sql: str
    drawn: Drawn | None = None


def load() -> str | None:
    """Fill the editor: from the link, as it was left, or with the first example. Gives a link that leads nowhere."""
    asked, known = st.query_params.get(QUERY), st.session_state.get(_LINK)
    if asked is None and known is not None:  # back from another page, which cleared the URL
        asked = st.query_params[QUERY] = known
    if TEXT in st.session_state and asked == known:
        return None
    question = None if asked is None else kept(asked)
    if question is not None:
        _fill(question)
        st.session_state[_LINK] = asked
    elif TEXT not in st.session_state:
        _fill(Question(EXAMPLES[0].sql, EXAMPLES[0].drawn))
    return asked if question is None else None


def current() -> Question:
    return Question(st.session_state[TEXT], st.session_state[_DRAWN])


def link() -> str:
    """The id under which what the page holds is kept."""
    return link_of(current())


def link_of(question: Question) -> str:
    """The id under which this question is kept."""
    return saved_views.save(published_data.engine(), PAGE, asdict(question))


def kept(view_id: str) -> Question | None:
    """What is kept under this id."""
    state = saved_views.load(published_data.engine(), PAGE, view_id)
    return None if state is None else _question(state)


def changed() -> None:
    """The reader has asked something else: the URL says what."""
    st.session_state[_LINK] = st.query_params[QUERY] = link()


def ask(question: Question) -> None:
    _fill(question)
    changed()


def recall(view_id: str) -> None:
    """Ask what is kept under this id."""
    if (question := kept(view_id)) is not None:
        ask(question)


def draw(drawn: Drawn) -> None:
    """Draw the answer so from now on."""
    st.session_state[_DRAWN] = drawn
    changed()


def _fill(question: Question) -> None:
    st.session_state[TEXT], st.session_state[_DRAWN] = question.sql, question.drawn


def _question(state: dict[str, Any]) -> Question:
    drawn = state["drawn"]
    return Question(state["sql"], None if drawn is None else Drawn(**drawn))
