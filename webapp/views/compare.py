"""Compare: one study's arms against a baseline: ratios, break-even, acceptance, latencies and outputs."""

from __future__ import annotations

import streamlit as st

from webapp import compare_choice, compare_figures, compare_page, outputs_page, results_page
from webapp.about import View
from webapp.said import said_here

st.title("Compare")
results_page.show_empty_state()

with said_here():
    asked = compare_page.choose()
    choice = compare_choice.of(asked)
    if not choice.pairs:
        st.info("Nothing to compare yet: it takes valid runs of the baseline and of another arm on one load.")
        st.stop()
    compare_page.show_circumstances(choice)
    compare_page.say_what_is_missing(choice)
    compare_page.show_cards(choice)
    of_all, of_a_place = st.container(), st.container()
    with of_a_place:
        asked |= compare_page.choose_place(choice)
    choice, view = compare_choice.of(asked), View("compare", asked)
    with of_all:
        compare_page.show_figures(compare_figures.OF_ALL, asked, view)
    with of_a_place:
        compare_page.show_figures(compare_figures.OF_A_PLACE, asked, view)
    compare_page.show_tables(choice, view)
    outputs_page.show(choice)
results_page.follow(results_page.job_state(choice.job_id))
