"""Run: everything behind one run's numbers."""

from __future__ import annotations

import streamlit as st

from webapp.pages.run import details, sections
from webapp.shared import published_data, study_picker, url_params, url_widgets
from webapp.shared.errors import show_user_errors
from webapp.shared.url_params import View

st.title("Run")
study_picker.show_empty_state()

with show_user_errors():
    study_column, run_column = st.columns([1, 1.4])
    with study_column:
        job_id = study_picker.choose_study()
    with run_column:
        run_id = url_params.job_id_of(
            url_widgets.choose(url_params.RUN, sections.labels(published_data.results(job_id)))
        )
    url_widgets.report_missing(url_params.JOB, url_params.RUN)
    run = published_data.run(run_id).iloc[0]

sections.show_head(run)
sections.show_summary(run)
view = View("run", {"job": (job_id,), "run": (run_id,)})
sections.show_charts(view)
details.show(run, view)
