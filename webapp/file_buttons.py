"""Buttons that give a reader a figure or a table as a file. Files are made when they are asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from urllib.parse import urljoin

import pandas as pd
import streamlit as st

from webapp import data, figure_files, table_files
from webapp.about import About, View
from webapp.charts.figures import Figure
from webapp.charts.theme import Mode

_SOURCE = "Drafthouse"
_NS_PER_S = 1e9


def about(title: str, note: str, view: View) -> About:
    """Of what is shown now; the link leads back to where the reader's browser is."""
    published = data.publication()
    as_of = None if published is None else datetime.fromtimestamp(published[2] / _NS_PER_S, UTC)
    return About(title, note, _SOURCE, as_of, urljoin(st.context.url or "", view.link))


def show_figure_menu(figure: Figure, view: View, mode: Mode) -> None:
    """A picture of the figure, and its rows."""
    told = about(figure.title, figure.note, view)
    with st.popover("", icon=":material/download:", help=f"Files of “{figure.title}”", type="tertiary"):
        _button("PNG", lambda: figure_files.png(figure, told, mode), told, "image/png", figure.key)
        _button("SVG", lambda: figure_files.svg(figure, told, mode), told, "image/svg+xml", figure.key)
        _rows(figure.rows, told, figure.key)


def show_table_buttons(frame: pd.DataFrame, title: str, view: View, key: str) -> None:
    """The rows of a table; `key` names it among the tables and figures of its page."""
    with st.container(horizontal=True):
        _rows(frame, about(title, "", view), key)


def _rows(frame: pd.DataFrame, told: About, key: str) -> None:
    _button("CSV", lambda: table_files.csv(frame, told), told, "text/csv", key)
    _button("Parquet", lambda: table_files.parquet(frame, told), told, "application/vnd.apache.parquet", key)


def _button(kind: str, make: Any, told: About, mime: str, key: str) -> None:
    st.download_button(
        kind,
        make,
        told.file_name(kind.lower()),
        mime,
        key=f"file-{key}-{kind}",
        icon=":material/download:",
        on_click="ignore",
    )
