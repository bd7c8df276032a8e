"""Deploy: what to run for a target, from all of its studies; then why, and what theory says, by the chosen one."""

from __future__ import annotations

from collections.abc import Collection

import streamlit as st

from jobs.engines.profiles import speculation_words
from webapp.pages.deploy import advice, by_target, tuning
from webapp.shared import published_data, study_picker, url_params
from webapp.shared.errors import show_user_errors
from webapp.shared.tables import show_table
from webapp.shared.text import literal
from webapp.shared.url_params import View


def show_page() -> None:
    st.title("Deploy", anchor=False)
    study_picker.show_empty_state()
    with show_user_errors():
        job_id = study_picker.chosen_study()
        job = published_data.job(job_id)
        show_target(job_id)
        study_picker.show_caveats(published_data.results(job_id), job)
        if job is not None and job.study.tune is not None:
            tuning.show(job_id)
        else:
            st.subheader("Why, by the chosen study", anchor=False)
            advice.show(job_id)
            if job is not None:
                tuning.link_tunings(job)
    study_picker.follow(published_data.job(job_id))


def show_target(job_id: str) -> None:
    """Show what to deploy for the study's target at each load, from all studies of that target."""
    target = published_data.results(job_id)["target"].iloc[0]
    if not isinstance(target, str):
        st.caption("What to run is collected by target, and that of this study is unknown.")
        return
    rows = by_target.deployments(target)
    if rows.empty:
        st.caption(f"No study of {literal(target)} has compared an arm with its baseline at the same load yet.")
        return
    if rows["deploy"].eq(by_target.OPEN).all():
        st.markdown(f"No study has decided yet what to run for **{literal(target)}**:")
    else:
        st.markdown(f"What to run for **{literal(target)}**, at each load by the newest study that decided it:")
    view = View("deploy", {url_params.JOB.key: (job_id,)})
    shown, title = rows.drop(columns=["job_id", "arms"]), f"What to deploy for {target}"
    show_table(shown, by_target.COLUMNS, title, view, "target", same_once=True, stays="deploy")
    if not rows["arms"].map(bool).any():
        return
    with st.expander("On the engine's command line", icon=":material/terminal:"):
        for enabled, arms in rows.groupby("job_id", sort=False)["arms"]:
            _show_commands(str(enabled), {arm for choice in arms for arm in choice})


def _show_commands(job_id: str, enabled: Collection[str]) -> None:
    """Show the engine's flags of these arms of a study of this host."""
    job = published_data.job(job_id)
    settings = published_data.settings()
    for arm in () if job is None else job.study.arms:
        if arm.name in enabled and (line := speculation_words(settings.engines_file, settings.models_dir, arm)):
            st.caption(f"{literal(arm.name)}, of {literal(job.name if job else job_id)}:")
            st.code(line, language=None, wrap_lines=True)


if __name__ == "__main__":
    show_page()
