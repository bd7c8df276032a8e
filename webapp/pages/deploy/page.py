"""Deploy: what to run for a target, from all of its studies; then why, and what theory says, by the chosen one."""

from __future__ import annotations

import streamlit as st

from jobs.engines.profiles import speculation_words
from jobs.table import Job
from webapp.pages.deploy import advice, by_target, tuning
from webapp.shared import published_data, study_picker, url_params
from webapp.shared.errors import show_user_errors
from webapp.shared.tables import show_table
from webapp.shared.text import literal
from webapp.shared.url_params import View
from webapp.shared.verdicts import answers


def show_page() -> None:
    st.title("Deploy", anchor=False)
    study_picker.show_empty_state()
    with show_user_errors():
        job_id = study_picker.chosen_study()
        job = study_picker.job_state(job_id)
        show_target(job_id)
        if job is not None and job.study.tune is not None:
            tuning.show(job_id, job)
        else:
            if job is not None:
                show_command(job_id, job)
            st.subheader("Why, by the chosen study", anchor=False)
            advice.show(job_id)
            if job is not None:
                tuning.link_tunings(job)
    study_picker.follow(study_picker.job_state(job_id))


def show_target(job_id: str) -> None:
    """Show what to deploy for the study's target at each load, from all studies of that target."""
    target = str(published_data.results(job_id)["target"].iloc[0])
    rows = by_target.deployments(target)
    st.markdown(f"What to run for **{literal(target)}**, at each load by the newest study that decided it:")
    if rows.empty:
        st.caption("No study has compared an arm with its baseline at the same load yet.")
        return
    view = View("deploy", {url_params.JOB.key: (job_id,)})
    show_table(rows, by_target.COLUMNS, f"What to deploy for {target}", view, "target")


def show_command(job_id: str, job: Job) -> None:
    """Show the engine's flags of each arm that the chosen study says to enable somewhere."""
    answer = answers.answer_of(job_id)
    enabled = {arm for choice in (() if answer is None else answer.choices) for arm in choice.arms}
    settings = published_data.settings()
    words = {
        arm.name: speculation_words(settings.engines_file, settings.models_dir, arm)
        for arm in job.study.arms
        if arm.name in enabled
    }
    for name, line in words.items():
        if line:
            st.caption(f"On the engine's command line, for {literal(name)}:")
            st.code(line, language="bash", wrap_lines=True)


if __name__ == "__main__":
    show_page()
