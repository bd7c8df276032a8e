"""Advice: where to enable speculation, with which draft, why, and what to measure next."""

from __future__ import annotations

import streamlit as st

from webapp.pages.advice import data, figures, sections
from webapp.shared import study_picker, url_params
from webapp.shared.errors import show_user_errors
from webapp.shared.url_params import View

st.title("Advice")
study_picker.show_empty_state()

with show_user_errors():
    asked = sections.choose()
    (job_id,) = asked[url_params.JOB.key]
    found = data.found(job_id, figures.draft_cost(asked))
    view = View("advice", asked)
    sections.show_nothing(found)
    sections.show_summary(found)
    sections.show_verdicts(found, job_id)
    sections.show_next(found, job_id)
    sections.show_figure(asked, view)
    sections.show_tables(found, view)
study_picker.follow(study_picker.job_state(job_id))
