"""Tune: the setting for each load, what to deploy, how it was measured, and why the rest was left out."""

from __future__ import annotations

import streamlit as st

from jobs.table import Job
from lab.tuning.report import Measured, Report
from webapp.pages.tune import data, figures
from webapp.shared import published_data, study_picker, url_params, url_widgets
from webapp.shared.cards import Card, show_cards
from webapp.shared.errors import show_user_errors
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import show_table
from webapp.shared.text import count, literal, moment, span, times
from webapp.shared.url_params import View, page_file


def show_page() -> None:
    st.title("Tune")
    study_picker.show_empty_state()
    with show_user_errors():
        job_id = study_picker.choose_study()
        url_widgets.report_missing(url_params.JOB)
        job = study_picker.job_state(job_id)
        found = found_or_stop(job_id, job)
        view = View("tune", {url_params.JOB.key: (job_id,)})
        study_picker.show_caveats(published_data.results(job_id), job, "the Run page")
        show_summary(found)
        show_figures(figures.figures(view.parameters, colour_mode()), colour_mode(), view)
        show_best(found, view)
        show_deployment(found)
        show_final(found, view)
        show_tried(found, view)
        show_provenance(found, job_id)
    study_picker.follow(job)


def found_or_stop(job_id: str, job: Job | None) -> Report:
    """The report; ends the page with what to do where there is none."""
    if job is None or job.study.tune is None:
        st.info(
            "This study is not a tuning: its arms and their numbers of drafted tokens were fixed. "
            f"`drafthouse tune {job_id}` finds the best ones for its target, drafts and loads.",
            icon=":material/tune:",
        )
        st.page_link(page_file("results"), label="Its results", icon=":material/monitoring:")
        st.stop()
    found = data.tuned(job_id)
    if found is None:
        st.info("No load has a run without speculation and one with it yet.", icon=":material/progress_activity:")
        study_picker.follow(job)
        st.stop()
    return found


def show_summary(found: Report) -> None:
    open_loads = {each.load for each in found.tried if each.fate.startswith("still open")}
    decided = len(found.best) - len(open_loads)
    show_cards(
        [
            Card("To deploy", found.deployed.name, ranges_sentence(found)),
            Card("Best for all loads", found.single.name, "if one setting has to do for all of them"),
            Card("Loads decided", f"{decided} of {len(found.best)}", found.ended or "it is still measuring"),
            Card("Runs", f"{found.runs}", f"one run of everything would take {found.grid_runs}, and know no interval"),
        ]
    )


def ranges_sentence(found: Report) -> str:
    """`k = 3 up to 8 requests at once, 1 up to 32, then 0`."""
    if len(found.ranges) == 1:
        return "the same at every load"
    *before, (_, _, last) = found.ranges
    parts = [f"{k} up to {end}" for _, end, k in before]
    return f"k = {', '.join(parts)} requests at once, then {last}"


def show_best(found: Report, view: View) -> None:
    st.subheader("The setting for each load", anchor=False)
    st.caption(
        "Speed-up in output tokens a second over no speculation, with its 95 % interval. Settings within 2 % of the "
        "fastest are ties, and the one with the fewest drafted tokens is taken."
    )
    show_table(data.measured(found.best), data.RESULT_COLUMNS, "The setting for each load", view, "best")
    if found.assumption:
        st.caption(f":material/warning: {found.assumption}")


def show_deployment(found: Report) -> None:
    st.subheader("What to deploy", anchor=False)
    words = data.command_line(found.deployed)
    if found.deployed.speculation is None:
        st.markdown("No speculation: at no load is any draft faster by more than 2 %.")
        return
    if words:
        st.caption("On the engine's command line:")
        st.code(words, language="bash", wrap_lines=True)
    st.caption("As the speculation of an arm:")
    st.code(data.as_json(found.deployed), language="json", wrap_lines=True)


def show_final(found: Report, view: View) -> None:
    if not found.final:
        return
    st.subheader("Measured at the end", anchor=False)
    st.caption("In repeats of their own, after everything was chosen, so chance in the choice does not flatter them.")
    for each in found.cost_of_nothing:
        st.markdown(f":material/toggle_off: {nothing_sentence(each)}")
    show_table(data.measured(found.final), data.RESULT_COLUMNS, "Measured at the end", view, "final")


def nothing_sentence(each: Measured) -> str:
    """What being ready to draft costs where nothing is drafted."""
    if each.low is None or each.high is None:
        return f"At {each.load} requests at once the schedule drafts nothing; what that costs is unknown."
    return (
        f"At {each.load} requests at once the schedule drafts nothing and is {times(each.ratio)} "
        f"({span(each.low, each.high)}) as fast as an engine without speculation: {literal(each.verdict)}."
    )


def show_tried(found: Report, view: View) -> None:
    st.subheader("What was tried, and what was left out", anchor=False)
    st.caption(
        "Runs of the race alone. The expected speed-up rests on a setting's own runs, on its draft's acceptance by "
        "position, and on what a round cost with other numbers of tokens."
    )
    show_table(data.tried(found), data.TRIED_COLUMNS, "What was tried", view, "tried")


def show_provenance(found: Report, job_id: str) -> None:
    published = moment(published_data.published_at())
    st.caption(f"From {count(found.runs, 'run')} of job {literal(job_id)}, as published {published}.")


if __name__ == "__main__":
    show_page()
