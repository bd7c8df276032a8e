"""The view that links of the navigation carry."""

from __future__ import annotations

import json

from streamlit.testing.v1 import AppTest


def leave_results() -> None:
    """As a page that was opened by a link with a bare id."""
    import streamlit as st  # noqa: PLC0415 - Streamlit runs the source of this function alone

    from webapp.shared import url_widgets  # noqa: PLC0415

    url_widgets.begin("results")
    with url_widgets.view_in_url("results"):
        url_widgets.record("job", "2026")
        url_widgets.record("category", "code")
    st.json({name: url_widgets.left_view("results", name) for name in ("mine · 2026", "other · 2027")})


def test_a_link_in_the_list_keeps_what_its_own_study_has() -> None:
    (shown,) = AppTest.from_function(leave_results, default_timeout=600).run().json
    assert json.loads(shown.value) == {
        "mine · 2026": {"job": ["mine · 2026"], "category": ["code"]},
        "other · 2027": {"job": ["other · 2027"]},
    }
