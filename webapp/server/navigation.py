"""The list of pages in the sidebar. Its links carry the chosen study and the view that each page was left with.

Streamlit's own list has links without parameters: a middle click or a copied link would lose the study.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from access.web import visitor
from webapp.pages import Page
from webapp.shared import url_widgets
from webapp.shared.study_picker import Bar
from webapp.shared.text import literal

_STYLE = Path(__file__).parents[1] / "static" / "pages.css"


def show(listed: Mapping[StreamlitPage, Page], bar: Bar) -> None:
    """Show the list. `listed`: the pages in order, each as Streamlit links to it."""
    with st.sidebar, st.container(key="pages", gap=None):
        st.html(_STYLE)
        for section, links in itertools.groupby(listed, lambda link: listed[link].section):
            st.caption(section)
            for link in links:
                page = listed[link]
                study = bar.chosen or (bar.default if page.is_of_study else None)
                view = url_widgets.left_view(page.address, study)
                query = [(key, value) for key, values in view.items() for value in values]
                st.page_link(link, query_params=query)
        if visitor.has_signed_in():
            _show_visitor()


def _show_visitor() -> None:
    """Show the signed-in user and a link to sign out: only the server can withdraw its cookie."""
    actor = visitor.actor()
    st.caption(f"Signed in as {literal(actor.name)}, {actor.role.value}")
    st.html('<a class="sign-out" href="logout" target="_self">Sign out</a>')
