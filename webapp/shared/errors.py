"""What the user can mend becomes a sentence on the page; everything else keeps its traceback in the server's log."""

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
    """Show a UserError, or a database that went away, where the page is, and end the page there."""
    try:
        yield
    except UserError as error:
        st.warning(literal(error), icon=":material/info:")
        st.stop()
    except (sa.exc.OperationalError, sa.exc.InterfaceError) as error:
        _gone("job table", error.orig)
    except duckdb.IOException as error:
        _gone("warehouse", error)


def _gone(what: str, error: object) -> None:
    st.error(f"The {what} does not answer: {literal(error)}", icon=":material/database_off:")
    st.caption("`drafthouse doctor` says what is wrong; this page looks again when you reload it.")
    st.stop()
