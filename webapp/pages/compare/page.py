"""Compare: one study's arms against a baseline: ratios, break-even, acceptance, latencies and outputs."""

from __future__ import annotations

import streamlit as st

from webapp.pages.compare import figures, outputs, sections, selection
from webapp.shared import study_picker
from webapp.shared.errors import show_user_errors
from webapp.shared.url_params import View

st.title("Compare")
study_picker.show_empty_state()

with show_user_errors():
    asked = sections.choose()
    choice = selection.of(asked)
    if not choice.pairs:
        st.info("Nothing to compare yet: it takes valid runs of the baseline and of another arm on one load.")
        st.stop()
    sections.show_circumstances(choice)
    sections.say_what_is_missing(choice)
    sections.show_summary(choice)
    of_all, of_a_place = st.container(), st.container()
    with of_a_place:
        asked |= sections.choose_place(choice)
    choice, view = selection.of(asked), View("compare", asked)
    with of_all:
        sections.show_charts(figures.OF_ALL, asked, view)
    with of_a_place:
        sections.show_charts(figures.OF_A_PLACE, asked, view)
    sections.show_tables(choice, view)
    outputs.show(choice)
study_picker.follow(study_picker.job_state(choice.job_id))
