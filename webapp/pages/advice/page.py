"""Advice: where to enable speculation, with which draft, why, and what to measure next."""

from __future__ import annotations

import streamlit as st

from webapp.pages.advice import figures, sections
from webapp.pages.advice.data import study_advice
from webapp.shared import study_picker, url_params
from webapp.shared.errors import show_user_errors
from webapp.shared.url_params import View

st.title("Advice")
study_picker.show_empty_state()

with show_user_errors():
    parameters = sections.choose()
    (job_id,) = parameters[url_params.JOB.key]
    advice = study_advice(job_id, figures.draft_cost(parameters))
    view = View("advice", parameters)
    sections.stop_without_speculation(advice)
    sections.show_summary(advice)
    sections.show_verdicts(advice, job_id)
    sections.show_follow_up(advice, job_id)
    sections.show_figure(parameters, view)
    sections.show_tables(advice, view)
study_picker.follow(study_picker.job_state(job_id))
