"""The frame of all pages: title, logo, navigation. Streamlit runs it for every visitor and interaction."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from streamlit.navigation.page import StreamlitPage

from webapp.server import first_paint
from webapp.server.script_lock import page_turn
from webapp.shared import published_data, url_widgets
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
                default=True,
                help="What runs now, what finished last, where speculation pays for each target, and the workers.",
            ),
            st.Page(
                page_file("submit"),
                url_path="submit",
                title="Submit",
                icon=":material/add_circle:",
                help="Describe a study, see how long it will take, and put it in the queue.",
            ),
            st.Page(
                page_file("jobs"),
                url_path="jobs",
                title="Jobs",
                icon=":material/list_alt:",
                help="The queue and finished studies, with progress, engine logs, cancel and retry.",
            ),
        ],
        "Understand": [
            st.Page(
                page_file("results"),
                url_path="results",
                title="Results",
                icon=":material/monitoring:",
                help="Where speculation pays and where it costs: throughput, speed-up and acceptance of one study.",
            ),
            st.Page(
                page_file("explore"),
                url_path="explore",
                title="Explore",
                icon=":material/query_stats:",
                help="Filter all runs and draw them as lines, bars, points, ECDF, Pareto front or percentiles.",
            ),
            st.Page(
                page_file("compare"),
                url_path="compare",
                title="Compare",
                icon=":material/compare_arrows:",
                help="A study's arms against a baseline: ratios with intervals, break-even, latencies, outputs.",
            ),
            st.Page(
                page_file("cost"),
                url_path="cost",
                title="Cost",
                icon=":material/payments:",
                help="What a million tokens cost with each arm, what it saves, and the price book.",
            ),
            st.Page(
                page_file("advice"),
                url_path="advice",
                title="Advice",
                icon=":material/lightbulb:",
                help="Where to enable speculation and with what, the evidence for it, and what to measure next.",
            ),
            st.Page(
                page_file("tune"),
                url_path="tune",
                title="Tune",
                icon=":material/tune:",
                help="For a tuning: the draft and number of tokens for each load, and the schedule to deploy.",
            ),
            st.Page(
                page_file("run"),
                url_path="run",
                title="Run",
                icon=":material/timeline:",
                help="Everything about one run: its requests, telemetry, checks, and how it was started.",
            ),
        ],
        "Share": [
            st.Page(
                page_file("sql"),
                url_path="sql",
                title="SQL",
                icon=":material/database:",
                help="Query the warehouse in SQL, draw the result, and share its link.",
            ),
            st.Page(
                page_file("dashboards"),
                url_path="dashboards",
                title="Dashboards",
                icon=":material/dashboard:",
                help="Pinned figures and queries side by side, each with a link, exported as one file.",
            ),
            st.Page(
                page_file("external_results"),
                url_path="external_results",
                title="External results",
                icon=":material/groups:",
                help="Import result files of other tools, and compare published figures with your own.",
            ),
        ],
    }


with page_turn(), published_data.shared_connection():
    st.set_page_config(page_title="Drafthouse", page_icon=str(STATIC / "icon.svg"), layout="wide")
    st.logo(str(STATIC / "logo.svg"), icon_image=str(STATIC / "icon.svg"), size="large")
    page = st.navigation(sections())
    if first_paint.begin(page.url_path):
        url_widgets.follow_link(page.url_path)
    page.run()
