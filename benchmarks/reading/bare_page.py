"""The cost of Streamlit itself: a page with only a title, a choice and a small chart, served like ours."""

from __future__ import annotations

import streamlit as st

st.set_page_config(page_title="bare", layout="wide")
st.title("Bare")
st.selectbox("Choice", ["a", "b"])
_POINTS = [{"x": place, "y": place * place} for place in range(5)]
st.vega_lite_chart(
    {
        "data": {"values": _POINTS},
        "mark": "line",
        "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}},
    }
)
