"""The menu that shares what a page shows, and the dialog that pins a figure to a dashboard."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from urllib.parse import urljoin

import streamlit as st

from access import shared_links
from access.shared_links import Kind
from access.web import visitor
from access.web.gate import gate
from access.web.guard import PRINT, SHARED
from host.settings import Settings
from lab.roles import Change
from warehouse.app_db import dashboards, pins
from warehouse.app_db.pins import PinnedFigure
from webapp.shared import published_data
from webapp.shared.errors import show_refusals
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import ACCOUNT_TAB, DASHBOARD, View, page_file

_DAYS = (1, 7, 30, 90, 365)
#: The tab of the page Account that lists them.
LINKS_TAB = "Shared links"
#: Key in the session's state: the link that was just made, with what it shows and its end.
_MADE = "share-made"
NOW, THIS_MOMENT, A_DATE = "Always the newest data", "This moment", "A date"
_CHOICES = (NOW, THIS_MOMENT, A_DATE)


def shared_address(settings: Settings, secret: str) -> str:
    """Return the link that visitors open."""
    return f"{settings.public_url}{SHARED}/{secret}"


def show_share_menu(kind: Kind, subject: str, title: str, view: View, *, owner: str | None = None) -> None:
    """Show the Share menu; its content is built when it opens. `owner` owns the shared study, and may be the only one
    who may publish it.
    """
    menu = st.popover("Share", icon=":material/link:", key=f"share-{kind}", on_change="rerun")
    if not menu.open:
        st.session_state.pop(_MADE, None)
        return
    with menu:
        st.markdown("**For those who can open this lab**")
        st.code(urljoin(st.context.url or "", view.link), language=None, wrap_lines=True)
        printed = urljoin(st.context.url or "", f"{PRINT.removeprefix('/')}/{kind}/{subject}")
        st.link_button("Print or save as PDF", printed, icon=":material/print:")
        if visitor.allowed_any(Change.SHARE) and gate().settings.web_share_days:
            st.divider()
            by = gate().settings.web_share_by
            if shared_links.may_publish(visitor.actor(), kind, owner, by):
                _show_without_login(kind, subject, title, owner)
            else:
                st.caption(f"A link without a login: {literal(shared_links.NOT_TO_PUBLISH[by])}.")


def _show_without_login(kind: Kind, subject: str, title: str, owner: str | None) -> None:
    most = gate().settings.web_share_days
    days = [day for day in _DAYS if day <= most] or [most]
    st.markdown("**For anybody, without a login**")
    changed = " Cards that are pinned later appear, too." if kind is Kind.DASHBOARD else ""
    key = f"share-{kind}-{subject}"
    data = st.radio("Data as of", (THIS_MOMENT, NOW), key=f"{key}-as-of", horizontal=True)
    as_of = datetime.now(UTC) if data == THIS_MOMENT else None
    shows = "always with the newest data" if as_of is None else "with the data of this moment"
    st.caption(f"Anyone with the link sees this {kind} and nothing else, {shows}.{changed}")
    with st.container(horizontal=True, vertical_alignment="bottom"):
        lasts = st.selectbox(
            "It works for", days, min(1, len(days) - 1), key=f"{key}-days", format_func=lambda day: count(day, "day")
        )
        is_wanted = st.button("Make a link", key=f"{key}-make", type="primary", icon=":material/add_link:")
    if is_wanted:
        _make(kind, subject, title, lasts=timedelta(days=lasts), as_of=as_of, owner=owner)
    _show_made(subject)
    if others := shared_links.working_links_to(published_data.engine(), kind, subject):
        by_owner = Counter(link.owner for link in others)
        who = ", ".join(f"{literal(owner)} ({number})" for owner, number in by_owner.items())
        last = moment(max(link.ends_at for link in others))
        st.caption(f"{count(len(others), 'link')} to it: by {who}; the last one works until {last}.")
    page = page_file("account")
    st.page_link(page, label="Links I have made", icon=":material/list:", query_params={ACCOUNT_TAB.key: LINKS_TAB})


def _make(kind: Kind, subject: str, title: str, *, lasts: timedelta, as_of: datetime | None, owner: str | None) -> None:
    ours = gate().settings
    with show_refusals():
        made, secret = shared_links.make_link(
            published_data.engine(),
            kind,
            subject,
            title,
            lasts=lasts,
            most=timedelta(days=ours.web_share_days),
            actor=visitor.actor(),
            as_of=as_of,
            owner=owner,
            by=ours.web_share_by,
        )
        st.session_state[_MADE] = (subject, made.ends_at, shared_address(ours, secret))


def _show_made(subject: str) -> None:
    """Show the new link while the menu is open, even when new data rerun the page."""
    of_what, ends_at, address = st.session_state.get(_MADE, ("", None, ""))
    if of_what != subject:
        return
    st.caption(f"Copy it now: it is not shown again. It works until {moment(ends_at)}.")
    st.code(address, language=None, wrap_lines=True)
    if gate().settings.web_frame_ancestors:
        st.caption("In a frame of one of the sites that this lab allows:")
        st.code(f'<iframe src="{address}?embed=true" width="100%" height="600"></iframe>', language=None)


def show_pin_button(title: str, view: View, figure: str, label: str = "") -> None:
    """Show a figure's button. `figure`: its key among those that the page draws from the view's parameters."""
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
        key=f"pin-caption-{figure}-{view.link}",  # of this figure alone; the dashboard stays chosen for the next one
        max_chars=pins.MAX_CAPTION_LENGTH,
        height=80,
        placeholder="What the figure shows, and why it matters",
    )
    moment = choose_moment(f"pin-moment-{figure}-{view.link}", None)
    if st.button("Pin", key="pin-now", type="primary", icon=":material/keep:"):
        _pin(name or "", PinnedFigure(view.page, view.parameters, figure, moment), caption)


def choose_moment(key: str, current: datetime | None) -> datetime | None:
    """Draw the choice of a point in time for the data; None: always the newest."""
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
    with show_refusals():
        dashboard_id = dashboards.create(published_data.engine(), name.strip(), actor=visitor.actor())
        pins.add(published_data.engine(), dashboard_id, pinned, caption.strip(), actor=visitor.actor())
        st.success(f"Pinned to {literal(name.strip())}.", icon=":material/check:")
        page, query = page_file("dashboards"), {DASHBOARD: dashboard_id}
        st.page_link(page, label="Open the dashboard", icon=":material/dashboard:", query_params=query)
