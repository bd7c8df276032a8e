"""Results: one study's speed-up, throughput and acceptance, its tables, and what failed."""

from __future__ import annotations

import streamlit as st

from webapp.charts.measures import BY_LABEL
from webapp.pages.results import figures, sections
from webapp.shared import published_data, study_picker, url_params, url_widgets
from webapp.shared.errors import show_user_errors
from webapp.shared.url_params import View

st.title("Results")
study_picker.show_empty_state()

with show_user_errors():
    study_column, category_column, metric_column = st.columns([3, 1.2, 1.5])
    with study_column:
        job_id = study_picker.choose_study()
    runs = published_data.results(job_id)
    with category_column:
        category = url_widgets.choose(url_params.CATEGORY, sections.categories(runs))
    with metric_column:
        measure = BY_LABEL[url_widgets.choose(url_params.METRIC, list(BY_LABEL))]
    url_widgets.report_missing(url_params.JOB, url_params.CATEGORY, url_params.METRIC)
    speedups = figures.of_category(published_data.speedup(job_id, measure.name), category)
    state = study_picker.job_state(job_id)

view = View("results", {"job": (job_id,), "category": (category,), "metric": (measure.label,)})
study_picker.show_caveats(runs, state)
sections.show_summary(speedups, runs, measure, state)
sections.show_charts(speedups, measure, view)
shown = figures.of_category(runs, category)
sections.show_tables(speedups, shown, measure=measure, view=view)
study_picker.follow(state)
