"""Advice: where to enable speculation, with which draft, why, and what to measure next."""

from __future__ import annotations

import streamlit as st

from webapp.pages.advice import data, figures, sections
from webapp.pages.results import sections as results_sections
from webapp.shared import url_params
from webapp.shared.about import View
from webapp.shared.errors import said_here

st.title("Advice")
results_sections.show_empty_state()

with said_here():
    asked = sections.choose()
    (job_id,) = asked[url_params.JOB.key]
    found = data.found(job_id, figures.draft_cost(asked))
    view = View("advice", asked)
    sections.show_nothing(found)
    sections.show_cards(found)
    sections.show_verdicts(found, job_id)
    sections.show_next(found, job_id)
    sections.show_figure(asked, view)
    sections.show_tables(found, view)
results_sections.follow(results_sections.job_state(job_id))
