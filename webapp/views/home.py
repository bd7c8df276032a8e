"""Home: what runs now, what finished last, the headline of each target, and who can work."""

from __future__ import annotations

import streamlit as st

from webapp import data, home_data, home_page, home_tables, jobs_page, workers_list
from webapp.said import said_here
from workers import queue

st.title("Home")
with said_here():
    published = data.publication()
    jobs, workers = jobs_page.all_jobs(data.engine()), queue.workers(data.engine())
    studies, headlines = home_data.studies(), home_data.headlines()
ended = home_tables.ended(jobs, studies)

home_page.show_cards(jobs, ended, studies, workers)
with said_here():
    if studies.empty and not home_page.active(jobs):
        home_page.show_beginning(workers)
    jobs_page.show_active(jobs)
    if not studies.empty:
        home_page.show_headlines(headlines)
    home_page.show_ended(ended)
    workers_list.show(data.engine())
home_page.follow(published, home_page.active(jobs))
