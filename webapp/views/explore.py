"""Explore: any slice of the runs, drawn as the reader chooses, with the same rows as a table."""

from __future__ import annotations

import streamlit as st

from webapp import drawing, explore_figures, explore_filters, explore_page
from webapp.about import View
from webapp.explore_slice import asked
from webapp.said import said_here

st.title("Explore")
with said_here():
    options = explore_page.begin()
    drawn = explore_filters.choose_drawing()
    view = View("explore", {**explore_filters.choose_runs(options), **drawn})
    slice_ = asked(view.parameters)
    shown = explore_figures.shown(view.parameters, drawing.mode())

explore_page.show_count(options, shown, slice_)
if shown.runs.empty:
    explore_page.show_nothing(slice_)
else:
    explore_page.show_figure(shown, slice_, view)
    explore_page.show_tables(shown, slice_, view)
