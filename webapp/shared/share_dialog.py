"""The button that shares what a page shows: its address for those who sign in, a link for those who do not, paper."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from urllib.parse import urljoin

import streamlit as st

from access import shared_links
from access.shared_links import Kind
from access.web import visitor
from access.web.gate import gate
from lab.errors import UserError
from lab.roles import Change
from webapp.shared import published_data
from webapp.shared.share_address import PRINT, shared_address
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import ACCOUNT_TAB, page_file

_DAYS = (1, 7, 30, 90, 365)
#: The tab of the page Account that lists them.
LINKS_TAB = "Shared links"
#: Key in the session's state: the link that was just made, with what it shows and its end.
_MADE = "share-made"


def show(kind: Kind, subject: str, title: str, link: str) -> None:
    """A menu, filled when it is opened. `link`: the address of the page itself."""
    menu = st.popover("Share", icon=":material/link:", key=f"share-{kind}", on_change="rerun")
    if not menu.open:
        st.session_state.pop(_MADE, None)
        return
    with menu:
        st.markdown("**For those who can open this lab**")
        st.code(link, language=None, wrap_lines=True)
        printed = urljoin(st.context.url or "", f"{PRINT.removeprefix('/')}/{kind}/{subject}")
        st.link_button("Print or save as PDF", printed, icon=":material/print:")
        if visitor.allowed_any(Change.SHARE) and gate().settings.web_share_days:
            st.divider()
            _show_without_login(kind, subject, title)


def _show_without_login(kind: Kind, subject: str, title: str) -> None:
    most = gate().settings.web_share_days
    days = [day for day in _DAYS if day <= most] or [most]
    st.markdown("**For anybody, without a login**")
    changed = ", and whatever is pinned to it later" if kind is Kind.DASHBOARD else ""
    st.caption(f"Whoever has such a link sees this {kind}, always with the newest data{changed}, and nothing else.")
    key = f"share-{kind}-{subject}"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        lasts = st.selectbox(
            "It works for", days, min(1, len(days) - 1), key=f"{key}-days", format_func=lambda day: count(day, "day")
        )
        is_wanted = st.button("Make a link", key=f"{key}-make", type="primary", icon=":material/add_link:")
    if is_wanted:
        _make(kind, subject, title, timedelta(days=lasts))
    _show_made(subject)
    if others := shared_links.working_links_to(published_data.engine(), kind, subject):
        by_owner = Counter(link.owner for link in others)
        who = ", ".join(f"{literal(owner)} ({number})" for owner, number in by_owner.items())
        last = moment(max(link.ends_at for link in others))
        st.caption(f"{count(len(others), 'link')} to it: by {who}; the last one works until {last}.")
    page = page_file("account")
    st.page_link(page, label="Links I have made", icon=":material/list:", query_params={ACCOUNT_TAB.key: LINKS_TAB})


def _make(kind: Kind, subject: str, title: str, lasts: timedelta) -> None:
    most = timedelta(days=gate().settings.web_share_days)
    try:
        made, secret = shared_links.make_link(
            published_data.engine(), kind, subject, title, lasts=lasts, most=most, actor=visitor.actor()
        )
    except UserError as error:
        st.warning(literal(error), icon=":material/info:")
        return
    st.session_state[_MADE] = (subject, made.ends_at, shared_address(gate().settings, secret))


def _show_made(subject: str) -> None:
    """For as long as the menu is open: the page runs again by itself when there are new data."""
    of_what, ends_at, address = st.session_state.get(_MADE, ("", None, ""))
    if of_what != subject:
        return
    st.caption(f"Copy it now: it is shown this once. It works until {moment(ends_at)}.")
    st.code(address, language=None, wrap_lines=True)
    if gate().settings.web_frame_ancestors:
        st.caption("In a frame of one of the sites that this lab allows:")
        st.code(f'<iframe src="{address}?embed=true" width="100%" height="600"></iframe>', language="html")
