"""Results: one study's speed-up, throughput and acceptance, its tables, and what failed."""

from __future__ import annotations

import streamlit as st

from webapp import choosing, data, params, results_figures, results_page
from webapp.about import View
from webapp.charts.measures import BY_LABEL
from webapp.said import said_here

st.title("Results")
results_page.show_empty_state()

with said_here():
    studies = data.studies_with_results()
    study_column, category_column, metric_column = st.columns([3, 1.2, 1.5])
    with study_column:
        job = choosing.choose(params.JOB, results_page.labels(studies))
    job_id = params.job_id_of(job)
    runs = data.results(job_id)
    with category_column:
        category = choosing.choose(params.CATEGORY, results_page.categories(runs))
    with metric_column:
        measure = BY_LABEL[choosing.choose(params.METRIC, list(BY_LABEL))]
    choosing.say_missing(params.JOB, params.CATEGORY, params.METRIC)
    speedups = results_figures.of_category(data.speedup(job_id, measure.column), category)
    state = results_page.job_state(job_id)

view = View("results", {"job": (job_id,), "category": (category,), "metric": (measure.label,)})
results_page.show_circumstances(runs, state)
results_page.show_cards(speedups, runs, measure, state)
results_page.show_figures(speedups, measure, view)
shown = results_figures.of_category(runs, category)
results_page.show_tables(speedups, shown, measure=measure, view=view)
results_page.follow(state)
