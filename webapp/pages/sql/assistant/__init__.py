"""Colours and completion in the SQL field, by a script of our own."""

from __future__ import annotations

from webapp.pages.sql import data
from webapp.shared import own_scripts


def show() -> None:
    """Add the script after the field; without it the field holds plain text."""
    names = {table: [column for column, *_ in columns] for table, _, columns in data.tables()}
    own_scripts.show(__file__, "sql-assistant", data={"tables": names})
