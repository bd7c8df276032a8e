"""Errors that the user can fix become a sentence on the page; all others keep their traceback in the server's log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import sqlalchemy as sa
import streamlit as st

from lab.errors import UserError
from webapp.shared.text import literal


@contextmanager
def show_user_errors() -> Iterator[None]:
    """Show a UserError or a lost database connection on the page, and end the page there."""
    try:
        yield
    except UserError as error:
        st.warning(literal(error), icon=":material/info:")
        st.stop()
    except (sa.exc.OperationalError, sa.exc.InterfaceError) as error:
        _show_lost("job table", error.orig)
    except duckdb.IOException as error:
        _show_lost("warehouse", error)


def _show_lost(database: str, error: object) -> None:
    st.error(f"The {database} does not answer: {literal(error)}", icon=":material/database_off:")
    st.caption("`drafthouse doctor` finds the cause; reload the page to try again.")
    st.stop()
