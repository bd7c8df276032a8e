"""Results: one study's speed-up, throughput and acceptance, its tables, and what failed."""

from __future__ import annotations

import streamlit as st

from webapp.charts.measures import BY_LABEL
from webapp.pages.results import figures, sections
from webapp.shared import published_data, url_params, url_widgets
from webapp.shared.about import View
from webapp.shared.errors import said_here

st.title("Results")
sections.show_empty_state()

with said_here():
    studies = published_data.studies_with_results()
    study_column, category_column, metric_column = st.columns([3, 1.2, 1.5])
    with study_column:
        job = url_widgets.choose(url_params.JOB, sections.labels(studies))
    job_id = url_params.job_id_of(job)
    runs = published_data.results(job_id)
    with category_column:
        category = url_widgets.choose(url_params.CATEGORY, sections.categories(runs))
    with metric_column:
        measure = BY_LABEL[url_widgets.choose(url_params.METRIC, list(BY_LABEL))]
    url_widgets.say_missing(url_params.JOB, url_params.CATEGORY, url_params.METRIC)
    speedups = figures.of_category(published_data.speedup(job_id, measure.column), category)
    state = sections.job_state(job_id)

view = View("results", {"job": (job_id,), "category": (category,), "metric": (measure.label,)})
sections.show_circumstances(runs, state)
sections.show_cards(speedups, runs, measure, state)
sections.show_figures(speedups, measure, view)
shown = figures.of_category(runs, category)
sections.show_tables(speedups, shown, measure=measure, view=view)
sections.follow(state)
