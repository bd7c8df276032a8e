"""Colours and completion in the SQL field, by a script of our own."""

from __future__ import annotations

from pathlib import Path

from streamlit.runtime import exists

from webapp.pages.sql import data
from webapp.shared import own_scripts

_SCRIPT = Path(__file__).parent / "assistant.js"


def show() -> None:
    """Add the script after the field; without it the field holds plain text."""
    if not exists():  # a test of the page's script alone
        return
    names = {table: [column for column, *_ in columns] for table, _, columns in data.tables()}
    own_scripts.component(_SCRIPT)(key="sql-assistant", data={"tables": names}, height=1)
