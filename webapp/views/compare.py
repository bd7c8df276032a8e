"""Compare: one study's arms against a baseline: ratios, break-even, acceptance, latencies and outputs."""

from __future__ import annotations

import streamlit as st

from webapp import compare_choice, compare_figures, compare_page, data, drawing, outputs_page, results_page
from webapp.about import View
from webapp.said import said_here

st.title("Compare")
results_page.show_empty_state()

with said_here():
    asked = compare_page.choose()
    choice = compare_choice.of(asked)
    mode = drawing.mode()
    if not choice.pairs:
        st.info("Nothing to compare yet: it takes valid runs of the baseline and of another arm on one load.")
        st.stop()
    results_page.show_circumstances(data.results(choice.job_id), results_page.job_state(choice.job_id))
    compare_page.say_what_is_missing(choice)
    compare_page.show_cards(choice)
    above, middle = st.container(), st.container()
    with middle:
        asked |= compare_page.choose_place(choice)
    choice, view = compare_choice.of(asked), View("compare", asked)
    figures = compare_figures.drawn(asked, mode)
    with above:
        drawing.show_figures([each for each in figures if each.key in compare_figures.OF_ALL], mode, view)
    with middle:
        drawing.show_figures([each for each in figures if each.key not in compare_figures.OF_ALL], mode, view)
    compare_page.show_tables(choice, compare_page.agreements(choice), view)
    outputs_page.show(choice)
results_page.follow(results_page.job_state(choice.job_id))
