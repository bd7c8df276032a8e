"""Shows errors that the user can fix as a sentence on the page; all others keep their traceback in the server's log."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

import duckdb
import streamlit as st

from lab.errors import UserError
from warehouse.app_db.engine import DATABASE_ERRORS, database_words
from webapp.shared.text import literal, sentence

_log = logging.getLogger(__name__)
P = ParamSpec("P")
#: Key in the session's state: why the last click was refused.
_REFUSAL = "refusal-of-a-click"


@contextmanager
def show_user_errors() -> Iterator[None]:
    """Show a UserError or a lost database connection on the page, and end the page there."""
    try:
        yield
    except UserError as error:
        st.warning(sentence(error), icon=":material/info:")
        st.stop()
    except DATABASE_ERRORS as error:
        _log.warning("the app database does not answer", exc_info=error)
        _show_lost("job table", database_words(error))
    except duckdb.IOException as error:
        _show_lost("warehouse", error)


@contextmanager
def show_refusals() -> Iterator[None]:
    """Show a UserError where it occurs; it ends the block, and the page goes on below."""
    try:
        yield
    except UserError as error:
        st.warning(sentence(error), icon=":material/info:")


def callback(change: Callable[P, object]) -> Callable[P, None]:
    """Make a function the callback of a widget: its user errors appear above the page, which is drawn as usual.

    Streamlit runs callbacks before the page, outside the page's error handling.
    """

    @functools.wraps(change)
    def tried(*arguments: P.args, **options: P.kwargs) -> None:
        try:
            change(*arguments, **options)
        except UserError as error:
            st.session_state[_REFUSAL] = str(error)
        except DATABASE_ERRORS as error:
            _log.warning("the app database does not answer", exc_info=error)
            st.session_state[_REFUSAL] = f"nothing was changed: the job table does not answer ({database_words(error)})"

    return tried


def show_refusal() -> None:
    """Show once why the last click changed nothing."""
    if refusal := st.session_state.pop(_REFUSAL, None):
        st.warning(sentence(refusal), icon=":material/info:")


def _show_lost(database: str, error: object) -> None:
    st.error(f"The {database} does not answer: {literal(error)}", icon=":material/database_off:")
    st.caption("`drafthouse doctor` finds the cause; reload the page to try again.")
    st.stop()
