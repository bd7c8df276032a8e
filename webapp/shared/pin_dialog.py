"""The button on every figure that pins it to a dashboard, and its dialog."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from access.web import visitor
from lab.errors import UserError
from lab.roles import Change
from warehouse.app_db import dashboards, pins
from warehouse.app_db.pins import PinnedFigure
from webapp.shared import published_data
from webapp.shared.text import literal
from webapp.shared.url_params import DASHBOARD, View, page_file

NOW, THIS_MOMENT, A_DATE = "Always the newest data", "This moment", "A date"
_CHOICES = (NOW, THIS_MOMENT, A_DATE)


def show_button(title: str, view: View, figure: str, label: str = "") -> None:
    """`figure`: its key among the figures that the page draws from the view's parameters."""
    help_text = f"Pin “{literal(title)}” to a dashboard"
    key = f"pin-{figure}"
    if st.button(
        label or help_text, icon=":material/keep:", help=help_text, key=key, type="secondary" if label else "tertiary"
    ):
        _show_dialog(title, view, figure)


@st.dialog("Pin to a dashboard", icon=":material/keep:")
def _show_dialog(title: str, view: View, figure: str) -> None:
    st.markdown(f"**{literal(title)}**")
    listed = dashboards.all_dashboards(published_data.engine())
    names = [dashboard.name for dashboard in listed if visitor.allowed(Change.DASHBOARD, dashboard.owner)]
    name = st.selectbox(
        "Dashboard",
        names,
        index=0 if names else None,
        key="pin-dashboard",
        accept_new_options=True,
        placeholder="Type the name of a new dashboard",
        help="Choose one, or type the name of a new one",
    )
    caption = st.text_area(
        "Caption",
        key="pin-caption",
        max_chars=pins.MAX_CAPTION_LENGTH,
        height=80,
        placeholder="What the figure shows, and why it matters",
    )
    moment = choose_moment("pin-moment", None)
    if st.button("Pin", key="pin-now", type="primary", icon=":material/keep:"):
        _pin(name or "", PinnedFigure(view.page, view.parameters, figure, moment), caption)


def choose_moment(key: str, current: datetime | None) -> datetime | None:
    """The point in time whose data is shown; None: always the newest."""
    chosen = st.radio(
        "Data as of", _CHOICES, 0 if current is None else _CHOICES.index(A_DATE), key=key, horizontal=True
    )
    if chosen == NOW:
        return None
    if chosen == THIS_MOMENT:
        st.caption("Only runs that have ended by now.")
        return datetime.now(UTC)
    initial = (current or datetime.now(UTC)).replace(tzinfo=None)
    entered = st.datetime_input("Date and time (UTC)", initial, key=f"{key}-date", format="YYYY-MM-DD")
    st.caption("Only runs that had ended by then, with today's verdicts.")
    return None if entered is None else entered.replace(tzinfo=UTC)


def _pin(name: str, pinned: PinnedFigure, caption: str) -> None:
    try:
        dashboard_id = dashboards.create(published_data.engine(), name.strip(), actor=visitor.actor())
        pins.add(published_data.engine(), dashboard_id, pinned, caption.strip(), actor=visitor.actor())
    except UserError as error:
        st.warning(literal(error), icon=":material/info:")
        return
    st.success(f"Pinned to {literal(name.strip())}.", icon=":material/check:")
    st.page_link(
        page_file("dashboards"),
        label="Open the dashboard",
        icon=":material/dashboard:",
        query_params={DASHBOARD: dashboard_id},
    )
