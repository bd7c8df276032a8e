"""Advice: where to enable speculation, with which draft, why, and what to measure next."""

from __future__ import annotations

import streamlit as st

from webapp import advice_data, advice_figures, advice_page, params, results_page
from webapp.about import View
from webapp.said import said_here

st.title("Advice")
results_page.show_empty_state()

with said_here():
    asked = advice_page.choose()
    (job_id,) = asked[params.JOB.key]
    found = advice_data.found(job_id, advice_figures.draft_cost(asked))
    view = View("advice", asked)
    advice_page.show_nothing(found)
    advice_page.show_cards(found)
    advice_page.show_verdicts(found, job_id)
    advice_page.show_next(found, job_id)
    advice_page.show_figure(asked, view)
    advice_page.show_tables(found, view)
results_page.follow(results_page.job_state(job_id))
