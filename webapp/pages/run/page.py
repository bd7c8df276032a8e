"""Run: everything behind one run's numbers."""

from __future__ import annotations

import streamlit as st

from webapp.pages.results import sections as results_sections
from webapp.pages.run import details, sections
from webapp.shared import published_data, url_params, url_widgets
from webapp.shared.about import View
from webapp.shared.errors import said_here

st.title("Run")
results_sections.show_empty_state()

with said_here():
    studies = published_data.studies_with_results()
    study_column, run_column = st.columns([1, 1.4])
    with study_column:
        job_id = url_params.job_id_of(url_widgets.choose(url_params.JOB, results_sections.labels(studies)))
    with run_column:
        run_id = url_params.job_id_of(
            url_widgets.choose(url_params.RUN, sections.labels(published_data.results(job_id)))
        )
    url_widgets.say_missing(url_params.JOB, url_params.RUN)
    run = published_data.run(run_id).iloc[0]

sections.show_head(run)
sections.show_cards(run)
view = View("run", {"job": (job_id,), "run": (run_id,)})
sections.show_figures(view)
details.show(run, view)
