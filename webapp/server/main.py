"""The frame of all pages: title, logo, navigation. Streamlit runs it for every visitor and interaction."""

from __future__ import annotations

import itertools
from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from webapp.access import visitor
from webapp.server import colour_watch, navigation
from webapp.server.script_lock import page_turn
from webapp.shared import published_data, study_bar, url_widgets
from webapp.shared.errors import show_refusal, show_user_errors
from webapp.shared.figures import colour_mode
from webapp.shared.url_params import page_file

STATIC = Path(__file__).parents[1] / "static"


def sections() -> dict[str, list[StreamlitPage]]:
    """In the order of work: measure, understand the results, share them."""
    return {
        "Measure": [
            st.Page(
                page_file("home"),
                url_path="home",
                title="Home",
                icon=":material/home:",
            ),
            st.Page(
                page_file("submit"),
                url_path="submit",
                title="Submit",
                icon=":material/add_circle:",
            ),
            st.Page(
                page_file("jobs"),
                url_path="jobs",
                title="Jobs",
                icon=":material/list_alt:",
            ),
        ],
        "Understand": [
            st.Page(
                page_file("results"),
                url_path="results",
                title="Results",
                icon=":material/monitoring:",
            ),
            st.Page(
                page_file("explore"),
                url_path="explore",
                title="Explore",
                icon=":material/query_stats:",
            ),
            st.Page(
                page_file("compare"),
                url_path="compare",
                title="Compare",
                icon=":material/compare_arrows:",
            ),
            st.Page(
                page_file("cost"),
                url_path="cost",
                title="Cost",
                icon=":material/payments:",
            ),
            st.Page(
                page_file("advice"),
                url_path="advice",
                title="Advice",
                icon=":material/lightbulb:",
            ),
            st.Page(
                page_file("tune"),
                url_path="tune",
                title="Tune",
                icon=":material/tune:",
            ),
            st.Page(
                page_file("run"),
                url_path="run",
                title="Run",
                icon=":material/timeline:",
            ),
        ],
        "Share": [
            st.Page(
                page_file("sql"),
                url_path="sql",
                title="SQL",
                icon=":material/database:",
            ),
            st.Page(
                page_file("dashboards"),
                url_path="dashboards",
                title="Dashboards",
                icon=":material/dashboard:",
            ),
            st.Page(
                page_file("external_results"),
                url_path="external_results",
                title="External results",
                icon=":material/groups:",
            ),
            st.Page(
                page_file("account"),
                url_path="account",
                title="Account",
                icon=":material/account_circle:",
            ),
        ],
    }


def start() -> StreamlitPage:
    """The page at the root: what Home shows. Streamlit can link to that address only without parameters, so the server
    redirects it to Home's own.
    """
    return st.Page(page_file("home"), url_path="start", title="Home", default=True, visibility="hidden")


with page_turn(visitor.name_for_turns()), published_data.shared_connection():
    st.set_page_config(page_title="Drafthouse", page_icon=str(STATIC / "icon.svg"), layout="wide")
    st.logo(str(STATIC / "logo.svg"), icon_image=str(STATIC / "icon.svg"), size="large")
    with show_user_errors():
        visitor.claim_session()
    listed = sections()
    page = st.navigation([start(), *itertools.chain(*listed.values())], position="hidden")
    url_widgets.begin(page.url_path)
    bar = study_bar.show(page.url_path)
    navigation.show(listed, bar)
    with st.sidebar:
        colour_watch.show(colour_mode())
    with url_widgets.view_in_url(page.url_path):
        show_refusal()
        page.run()
