"""The frame of all pages: title, logo, navigation. Streamlit runs it for every visitor and interaction."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from access.web import visitor
from webapp.pages import DEFAULT, PAGES, Page
from webapp.server import colour_watch, field_help, navigation
from webapp.server.script_lock import page_turn
from webapp.shared import published_data, study_picker, url_widgets
from webapp.shared.errors import show_refusal, show_user_errors
from webapp.shared.figures import colour_mode

STATIC = Path(__file__).parents[1] / "static"


def linked(page: Page) -> StreamlitPage:
    return st.Page(page.file, url_path=page.address, title=page.title, icon=page.icon)


def start() -> StreamlitPage:
    """Show the page at the root: the default page. Streamlit can link to that address only without parameters, so the
    server redirects it to the page's own.
    """
    return st.Page(DEFAULT.file, url_path="start", title=DEFAULT.title, default=True, visibility="hidden")


with page_turn(visitor.name_for_queue()), published_data.one_drawing():
    st.set_page_config(page_title="Drafthouse", page_icon=str(STATIC / "icon.svg"), layout="wide")
    st.logo(str(STATIC / "logo.svg"), icon_image=str(STATIC / "icon.svg"), size="large")
    with show_user_errors():
        visitor.claim_session()
    listed = {linked(page): page for page in PAGES.values()}
    page = st.navigation([start(), *listed], position="hidden")
    url_widgets.begin(page.url_path)
    bar = study_picker.show_bar(is_of_study=PAGES.get(page.url_path, DEFAULT).is_of_study)
    navigation.show(listed, bar)
    with st.sidebar:
        colour_watch.show(colour_mode())
        field_help.show()
    with url_widgets.view_in_url(page.url_path):
        show_refusal()
        page.run()
