"""The visitor's shared links, or everybody's, each with a button that revokes it."""

from __future__ import annotations

from datetime import UTC, datetime

import streamlit as st

from access import shared_links
from access.shared_links import Kind, SharedLink
from access.web import visitor
from access.web.gate import gate
from lab.roles import Change
from webapp.pages.account import changes
from webapp.shared import published_data
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import DASHBOARD, JOB, RUN, page_file

#: Each has a button.
_MOST_SHOWN = 100
#: The pages that show the same to those who have signed in, and their parameters.
_PAGES = {
    Kind.DASHBOARD: ("dashboards", DASHBOARD),
    Kind.STUDY: ("results", JOB.key),
    Kind.RUN: ("run", RUN.key),
}


def show() -> None:
    actor = visitor.actor()
    is_administrator = visitor.allowed(Change.SHARE, None)
    everybodys = is_administrator and gate().has_users and st.toggle("Everybody's", key="account-all-links")
    listed = shared_links.all_links(published_data.engine(), None if everybodys else actor.name)
    now = datetime.now(UTC)
    working = [link for link in listed if link.works(now)]
    changes.show_outcome()
    if not gate().settings.web_share_days:
        st.info("Shared links are turned off in this lab (`DRAFTHOUSE_WEB_SHARE_DAYS` is 0): no link works.")
    if not working:
        st.caption(
            "No shared link is active. Dashboards, Results and Run have a button *Share*, which makes a link that "
            "shows one of them to whoever has it, without a login, until the day that you choose."
        )
    for link in working[:_MOST_SHOWN]:
        _show(link, with_owner=everybodys)
    if len(working) > _MOST_SHOWN:
        st.caption(f"The newest {_MOST_SHOWN} of {count(len(working), 'link')} that work.")
    others = [] if everybodys else shared_links.others_links_to(published_data.engine(), actor.name)
    if others:
        st.markdown("**Links that others made to what is yours**")
    for link in others[:_MOST_SHOWN]:
        _show(link, with_owner=True)
    if ended := len(listed) - len(working):
        st.caption(f"{count(ended, 'more link')} have ended." if ended > 1 else "1 more link has ended.")


def _show(link: SharedLink, *, with_owner: bool) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        with st.container(gap=None, width="stretch"):
            page, key = _PAGES[link.kind]
            st.page_link(page_file(page), label=f"**{literal(link.title)}**", query_params={key: link.subject})
            data = "newest data" if link.as_of is None else f"data of {moment(link.as_of)}"
            used = "not opened yet" if link.last_used_at is None else f"last opened {moment(link.last_used_at)}"
            owner = f"{literal(link.owner)} · " if with_owner else ""
            st.caption(
                f"{owner}{link.kind} · made {moment(link.created_at)} · works until {moment(link.ends_at)} · {data}"
                f" · {used}"
            )
        changes.button("End it", ":material/link_off:", f"end-link-{link.link_id}", lambda: _end(link))


def _end(link: SharedLink) -> str:
    shared_links.revoke(published_data.engine(), link.link_id, actor=visitor.actor())
    return f"The link to “{link.title}” no longer shows anything."
