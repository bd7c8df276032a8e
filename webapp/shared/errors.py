"""Errors that the user can fix become a sentence on the page; all others keep their traceback in the server's log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import streamlit as st

from lab.errors import UserError
from warehouse.app_db.engine import DATABASE_ERRORS, database_words
from webapp.shared.text import literal

_log = logging.getLogger(__name__)


@contextmanager
def show_user_errors() -> Iterator[None]:
    """Show a UserError or a lost database connection on the page, and end the page there."""
    try:
        yield
    except UserError as error:
        st.warning(literal(error), icon=":material/info:")
        st.stop()
    except DATABASE_ERRORS as error:
        _log.warning("the app database does not answer", exc_info=error)
        _show_lost("job table", database_words(error))
    except duckdb.IOException as error:
        _show_lost("warehouse", error)


def _show_lost(database: str, error: object) -> None:
    st.error(f"The {database} does not answer: {literal(error)}", icon=":material/database_off:")
    st.caption("`drafthouse doctor` finds the cause; reload the page to try again.")
    st.stop()
