"""A dashboard as one file: drawn when it is asked for, in light and in dark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import streamlit as st

from warehouse.app_db.dashboards import Dashboard
from warehouse.app_db.pins import Pin
from webapp.pages.dashboards import html_export, render_pins
from webapp.pages.dashboards.html_export import Sheet
from webapp.shared.about import SOURCE, About


def show_button(found: Dashboard, pins: Sequence[Pin], link: str) -> None:
    """`link`: where the dashboard stands."""
    told = About(found.name, "", SOURCE, datetime.now(UTC), link)
    st.download_button(
        "Export",
        lambda: _made(told, pins),
        told.file_name("html"),
        "text/html",
        key="dashboards-export",
        icon=":material/download:",
        help="One HTML file that opens without a server and asks nothing of any other",
        on_click="ignore",
        disabled=not pins,
    )


def _made(told: About, pins: Sequence[Pin]) -> bytes:
    light, dark = (render_pins.draw(pins, mode, told.link) for mode in ("light", "dark"))
    sheets = [
        Sheet(one.about, one.pin.caption, one.said, one.figure, other.figure)
        for one, other in zip(light, dark, strict=True)
    ]
    return html_export.html(told, sheets)
