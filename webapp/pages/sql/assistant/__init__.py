"""Colours and completion in the SQL field: a script of our own, declared to Streamlit as a component."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st
from streamlit.components.v2.get_bidi_component_manager import get_bidi_component_manager
from streamlit.components.v2.manifest_scanner import ComponentConfig, ComponentManifest
from streamlit.runtime import exists

from webapp.pages.sql import data

_FOLDER = Path(__file__).parent
_NAME = "drafthouse.sql_assistant"


def show() -> None:
    """After the field. It has a height of nothing; without it the field is one of plain text."""
    if not exists():  # a test of the page's script alone
        return
    names = {table: [column for column, *_ in columns] for table, _, columns in data.tables()}
    _component()(key="sql-assistant", data={"tables": names}, height=1)


def _component() -> Any:
    """Declared by its file: the page's policy allows scripts from the server alone, and none within a message."""
    manager = get_bidi_component_manager()
    if manager.get(_NAME) is None:
        package, _, name = _NAME.partition(".")
        manager.register_from_manifest(
            ComponentManifest(package, "1", [ComponentConfig(name, "assistant")]), _FOLDER.parent
        )
    return st.components.v2.component(_NAME, js="assistant.js", isolate_styles=False)
