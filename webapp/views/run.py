"""Run: everything behind one run's numbers."""

from __future__ import annotations

import streamlit as st

from webapp import choosing, data, params, results_page, run_details, run_page
from webapp.about import View
from webapp.said import said_here

st.title("Run")
results_page.show_empty_state()

with said_here():
    studies = data.studies_with_results()
    study_column, run_column = st.columns([1, 1.4])
    with study_column:
        job_id = params.job_id_of(choosing.choose(params.JOB, results_page.labels(studies)))
    with run_column:
        run_id = params.job_id_of(choosing.choose(params.RUN, run_page.labels(data.results(job_id))))
    choosing.say_missing(params.JOB, params.RUN)
    run = data.run(run_id).iloc[0]

run_page.show_head(run)
run_page.show_cards(run)
view = View("run", {"job": (job_id,), "run": (run_id,)})
run_page.show_figures(view)
run_details.show(run, view)
