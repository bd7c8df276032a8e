"""Buttons that give a reader a figure or a table as a file. Files are made when they are asked for."""

from __future__ import annotations

from typing import Any
from urllib.parse import urljoin

import pandas as pd
import streamlit as st

from webapp.charts.panels import Figure
from webapp.charts.theme import Mode
from webapp.pages.dashboards import pin_dialog
from webapp.shared import files, published_data
from webapp.shared.files import SOURCE, About
from webapp.shared.url_params import View


def about(title: str, note: str, view: View) -> About:
    """Of what is shown now; the link leads back to where the reader's browser is."""
    return About(title, note, SOURCE, published_data.published_at(), urljoin(st.context.url or "", view.link))


def show_figure_menu(figure: Figure, view: View, mode: Mode) -> None:
    """A picture of the figure, its rows, and a way to pin it to a dashboard."""
    with st.container(horizontal=True, gap="xxsmall", width="content"):
        pin_dialog.show_button(figure.title, view, figure.key)
        show_files(figure, about(figure.title, figure.note, view), mode)


def show_files(figure: Figure, told: About, mode: Mode) -> None:
    """A menu, filled when it is opened. `figure.key` names it among the tables and figures of its page."""
    menu = st.popover(
        "",
        icon=":material/download:",
        help=f"Files of “{figure.title}”",
        type="tertiary",
        key=f"files-{figure.key}",
        on_change="rerun",
    )
    if not menu.open:
        return
    with menu:
        if figure.panels:
            _button("PNG", lambda: files.png(figure, told, mode), told, "image/png", figure.key)
            _button("SVG", lambda: files.svg(figure, told, mode), told, "image/svg+xml", figure.key)
        _rows(figure.rows, told, figure.key)


def show_table_buttons(frame: pd.DataFrame, title: str, view: View, key: str) -> None:
    """The rows of a table; `key` names it among the tables and figures of its page."""
    with st.container(horizontal=True):
        _rows(frame, about(title, "", view), key)


def _rows(frame: pd.DataFrame, told: About, key: str) -> None:
    _button("CSV", lambda: files.csv(frame, told), told, "text/csv", key)
    _button("Parquet", lambda: files.parquet(frame, told), told, "application/vnd.apache.parquet", key)


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
