"""Buttons that download a figure or a table. Files are made when a button is clicked."""

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
    """The description of what is shown now; its link leads back to this view."""
    return About(title, note, SOURCE, published_data.published_at(), urljoin(st.context.url or "", view.link))


def show_figure_menu(figure: Figure, view: View, mode: Mode) -> None:
    """A menu to download the figure or its rows, and a button to pin it to a dashboard."""
    with st.container(horizontal=True, gap="xxsmall", width="content"):
        pin_dialog.show_button(figure.title, view, figure.key)
        show_files(figure, about(figure.title, figure.note, view), mode)


def show_files(figure: Figure, described: About, mode: Mode) -> None:
    """A menu, filled when it is opened. `figure.key` is unique among the figures and tables of the page."""
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
            _button("PNG", lambda: files.png(figure, described, mode), described, "image/png", figure.key)
            _button("SVG", lambda: files.svg(figure, described, mode), described, "image/svg+xml", figure.key)
        _rows(figure.rows, described, figure.key)


def show_table_buttons(frame: pd.DataFrame, title: str, view: View, key: str) -> None:
    """Buttons for the rows of a table. `key` is unique among the figures and tables of the page."""
    with st.container(horizontal=True):
        _rows(frame, about(title, "", view), key)


def _rows(frame: pd.DataFrame, described: About, key: str) -> None:
    _button("CSV", lambda: files.csv(frame, described), described, "text/csv", key)
    _button("Parquet", lambda: files.parquet(frame, described), described, "application/vnd.apache.parquet", key)


def _button(kind: str, make: Any, described: About, mime: str, key: str) -> None:
    st.download_button(
        kind,
        make,
        described.file_name(kind.lower()),
        mime,
        key=f"file-{key}-{kind}",
        icon=":material/download:",
        on_click="ignore",
    )
