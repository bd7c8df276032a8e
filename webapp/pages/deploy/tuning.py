"""What a tuning found: the setting for each load, what to deploy, how it was measured, and why others were dropped."""

from __future__ import annotations

import json

import streamlit as st

from access.web import visitor
from jobs.engines.profiles import speculation_words
from jobs.table import Job
from lab.errors import StudyError
from lab.metrics.number_format import ratio
from lab.roles import Change
from lab.tuning.beginning import tuning_of
from lab.tuning.report import Measured, Report
from webapp.pages.deploy import tuning_data as data
from webapp.pages.deploy import tuning_figures as figures
from webapp.shared import published_data, url_params
from webapp.shared.cards import Card, show_cards
from webapp.shared.figures import colour_mode, show_figures
from webapp.shared.tables import show_table
from webapp.shared.text import count, literal, moment
from webapp.shared.url_params import View, page_file
from webapp.shared.verdicts.answers import FROM_JOB, TUNE

#: Links on the page of a study that is not a tuning.
_MOST_TUNINGS = 6
#: Reasons of a report for a race's end; empty while it runs.
_ENDED = {
    "": "it is still measuring",
    "decided": "no other setting can be faster by more than 2 %",
    "most repeats": "it reached the limit of repeats",
    "most runs": "it reached the limit of runs",
    "budget spent": "its budget is spent",
}


def show(job_id: str) -> None:
    """Show what a tuning found: the setting for each load, how it was measured, and why others were dropped."""
    report = data.tuned(job_id)
    if report is None:
        st.info("No load has a run without speculation and one with it yet.", icon=":material/progress_activity:")
        return
    view = View("deploy", {url_params.JOB.key: (job_id,)})
    show_summary(report)
    show_figures(figures.figures(view.parameters, colour_mode()), colour_mode(), view)
    show_best(report, view)
    show_deployment(report)
    show_final(report, view)
    show_tried(report, view)
    published = moment(published_data.published_at())
    st.caption(f"From {count(report.runs, 'run')} of job {literal(job_id)}, as published {published}.")


def link_tunings(job: Job) -> None:
    """Show a link to Submit for each workload, as a schedule is tuned for one; or say why the study cannot be tuned."""
    st.caption(
        "This study used fixed settings. A tuning finds the best draft and k for each load: start one here, or with "
        f"`drafthouse tune {job.job_id}`."
    )
    if not visitor.allowed_any(Change.SUBMIT):
        return
    for workload in job.study.workloads[:_MOST_TUNINGS]:
        try:
            proposed = tuning_of(job.study, workload=workload.name)
        except StudyError as error:
            st.caption(literal(str(error)))
            return
        st.page_link(
            page_file("submit"),
            label=f"Tune for {literal(workload.name)}",
            icon=":material/tune:",
            query_params={FROM_JOB: job.job_id, TUNE: workload.name},
            help="Opens the Submit page with " + literal(", ".join(arm.name for arm in proposed.arms)),
        )


def show_summary(report: Report) -> None:
    inconclusive = {setting.load for setting in report.tried if setting.fate.startswith("inconclusive")}
    decided = len(report.best) - len(inconclusive)
    show_cards(
        [
            Card("To deploy", report.deployed.name, ranges_sentence(report)),
            Card("Best for all loads", report.single.name, "if one setting has to do for all of them"),
            Card("Loads decided", f"{decided} of {len(report.best)}", _ENDED.get(report.ended, report.ended)),
            Card(
                "Runs", f"{report.runs}", f"one run of everything would take {report.grid_runs}, and give no interval"
            ),
        ]
    )


def ranges_sentence(report: Report) -> str:
    """Describe the ranges: `k = 3 up to 8 requests at once, 1 up to 32, then 0`."""
    if len(report.ranges) == 1:
        return "the same at every load"
    *before, (_, _, last) = report.ranges
    parts = [f"{k} up to {end}" for _, end, k in before]
    return f"k = {', '.join(parts)} requests at once, then {last}"


def show_best(report: Report, view: View) -> None:
    st.subheader("The setting for each load", anchor=False)
    st.caption(
        "Speed-up in output tokens a second over no speculation, with its 95 % interval. Settings within 2 % of the "
        "fastest are ties, and the one with the fewest drafted tokens is taken."
    )
    show_table(data.measured(report.best), data.RESULT_COLUMNS, "The setting for each load", view, "best")
    if report.caveats:
        st.caption(f":material/warning: {report.caveats}")


def show_deployment(report: Report) -> None:
    st.subheader("What to deploy", anchor=False)
    speculation = report.deployed.speculation
    if speculation is None:
        st.markdown("No speculation: at no load was a draft shown to be faster.")
        return
    settings = published_data.settings()
    if words := speculation_words(settings.engines_file, settings.models_dir, report.deployed):
        st.caption("On the engine's command line:")
        st.code(words, language=None, wrap_lines=True)
    st.caption("As the speculation of an arm:")
    st.code(json.dumps(speculation.model_dump(mode="json", exclude_defaults=True)), language=None, wrap_lines=True)


def show_final(report: Report, view: View) -> None:
    if not report.final:
        return
    st.subheader("Measured at the end", anchor=False)
    st.caption(
        "Measured in separate repeats after everything was chosen, so that chance in the choice does not flatter them."
    )
    for cell in report.cost_of_nothing:
        st.markdown(f":material/toggle_off: {nothing_sentence(cell)}")
    show_table(data.measured(report.final), data.RESULT_COLUMNS, "Measured at the end", view, "final")


def nothing_sentence(cell: Measured) -> str:
    """Say what a schedule costs at a load where it drafts nothing."""
    if cell.low is None or cell.high is None:
        return f"At {cell.load} requests at once the schedule drafts nothing; what that costs is unknown."
    return (
        f"At {cell.load} requests at once the schedule drafts nothing and is {ratio(cell.ratio, cell.low, cell.high)} "
        f"as fast as an engine without speculation: {literal(cell.verdict)}."
    )


def show_tried(report: Report, view: View) -> None:
    st.subheader("What was tried, and what was left out", anchor=False)
    st.caption(
        "Only runs of the race count. The expected speed-up rests on a setting's own runs, on its draft's acceptance "
        "by position, and on what a round cost with other numbers of tokens."
    )
    show_table(data.tried(report), data.TRIED_COLUMNS, "What was tried", view, "tried")
