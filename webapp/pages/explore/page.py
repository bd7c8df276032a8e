"""Explore: any slice of the runs, drawn as the reader chooses, with the same rows as a table."""

from __future__ import annotations

import streamlit as st

from webapp.pages.explore import figures, filters, sections
from webapp.pages.explore.selection import parse
from webapp.shared.errors import show_user_errors
from webapp.shared.figures import colour_mode
from webapp.shared.url_params import View

st.title("Explore")
with show_user_errors():
    options = sections.begin()
    drawn = filters.choose_drawing()
    view = View("explore", {**filters.choose_runs(options), **drawn})
    slice_ = parse(view.parameters)
    shown = figures.shown(view.parameters, colour_mode())

sections.show_count(options, shown, slice_)
if shown.runs.empty:
    sections.show_nothing(slice_)
else:
    sections.show_figure(shown, slice_, view)
    sections.show_tables(shown, slice_, view)
