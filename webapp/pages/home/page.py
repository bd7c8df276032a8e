"""Home: what runs now, what finished last, the headline of each target, and the workers."""

from __future__ import annotations

import streamlit as st

from jobs import worker_registry
from webapp.pages.home import data as home_data
from webapp.pages.home import sections, tables
from webapp.pages.jobs import sections as jobs_sections
from webapp.pages.jobs import workers as workers_list
from webapp.shared import published_data
from webapp.shared.errors import show_user_errors

st.title("Home")
with show_user_errors():
    published = published_data.publication()
    jobs, workers = (
        jobs_sections.all_jobs(published_data.engine()),
        worker_registry.list_workers(published_data.engine()),
    )
    studies, headlines = home_data.studies(), home_data.headlines()
ended = tables.ended(jobs, studies)

sections.show_summary(jobs, ended, studies, workers)
with show_user_errors():
    if studies.empty and not sections.active(jobs):
        sections.show_first_steps(workers)
    jobs_sections.show_active(jobs)
    if not studies.empty:
        sections.show_headlines(headlines)
    sections.show_ended(ended)
    workers_list.show(published_data.engine())
sections.follow(published, sections.active(jobs))
