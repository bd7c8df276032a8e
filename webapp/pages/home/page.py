"""Home: the running and the last finished studies, the headline of each target, and the workers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import pandas as pd
import streamlit as st

from access.web import visitor
from jobs import queue, worker_registry
from jobs.blocks import jobs_at_work
from jobs.host_report import HostReport, last_report
from jobs.presets import load_preset
from jobs.table import Job
from jobs.worker_registry import WorkerInfo
from lab.comparison.verdict import READING_WORDS
from lab.errors import StudyError
from lab.roles import Change
from warehouse.queries.comparing.headlines import Headline
from webapp.pages.home import tables
from webapp.pages.jobs import sections as jobs_sections
from webapp.pages.jobs import workers as workers_list
from webapp.pages.jobs.workers import engine_names
from webapp.pages.submit.form_options import DEMO
from webapp.shared import published_data
from webapp.shared.cards import Card, show_cards
from webapp.shared.errors import show_user_errors
from webapp.shared.tables import show_table
from webapp.shared.text import count, duration, literal, moment
from webapp.shared.url_params import JOB, View, page_file
from webapp.shared.verdicts import answers

_POLL_EVERY = "5s"
#: Answers side by side, the newest first, and the width in pixels that each needs.
_MOST_ANSWERS, _MIN_WIDTH = 6, 420


def show_page() -> None:
    st.title("Home", anchor=False)
    with show_user_errors():
        published = published_data.publication()
        active = queue.active(published_data.engine())
        last_ended = queue.ended(published_data.engine(), tables.MAX_ENDED)
        workers = worker_registry.list_workers(published_data.engine())
        at_work = jobs_at_work(published_data.engine())
        studies, headlines = tables.read_studies(), tables.read_headlines()
    ended = tables.ended(last_ended, studies)

    cards = [now_card(active), finished_card(ended), measured_card(studies)]
    show_cards([*cards, workers_card(workers, at_work, datetime.now(UTC))])
    with show_user_errors():
        if studies.empty and not active:
            show_first_steps(workers)
        jobs_sections.show_active(active)
        if not studies.empty:
            show_headlines(headlines)
        show_ended(ended)
        workers_list.show(published_data.engine())
        if visitor.allowed(Change.AUDIT, None):
            show_verification(last_report(published_data.settings().home))
    follow(published, [job.job_id for job in active])


def show_first_steps(workers: Sequence[WorkerInfo]) -> None:
    """Show three ways to start before the first study; the demo takes one click."""
    st.subheader("Start here: nothing has been measured yet", anchor=False)
    with st.grid(3, gap="small", min_column_width=260):
        with st.container(border=True, height="stretch"):
            st.markdown("**1 · Run the demo study**")
            _show_demo(workers)
        with st.container(border=True, height="stretch"):
            st.markdown("**2 · Measure your own model**")
            st.markdown(
                "Name the model and its drafts, choose prompts and loads. The form checks each field and estimates how "
                "long the study will take."
            )
            st.page_link(page_file("submit"), label="Describe a study", icon=":material/add_circle:")
        with st.container(border=True, height="stretch"):
            st.markdown("**3 · Look at published results**")
            st.markdown(
                "Published figures are included, with notes on doubtful ones. You can import files of other tools."
            )
            st.page_link(page_file("external_results"), label="External results", icon=":material/groups:")


def _show_demo(workers: Sequence[WorkerInfo]) -> None:
    study = load_preset(DEMO)
    takes = published_data.forecast(study)
    st.markdown(
        f"{count(len(study.arms), 'arm')} on the small reference model that is included: "
        f"{count(takes.runs, 'run')}, about {duration(takes.wall_s)}, no GPU needed."
    )
    if all(worker.is_away() for worker in workers):
        st.caption(
            ":orange[:material/warning:] No worker is running: the study will wait in the queue until `drafthouse up` "
            "or `drafthouse worker` starts one."
        )
    if visitor.allowed_any(Change.SUBMIT) and st.button(
        "Run the demo study", type="primary", icon=":material/play_arrow:"
    ):
        try:
            if all(job.study_id != study.digest() for job in queue.active(published_data.engine())):
                queue.submit(published_data.settings(), study, actor=visitor.actor())
        except StudyError as error:
            st.error(literal(error), icon=":material/block:")
        else:
            st.rerun()


def show_headlines(headlines: Sequence[Headline]) -> None:
    st.subheader("Latest answer per target", anchor=False)
    if not headlines:
        st.caption("No verdicts yet. A verdict needs valid runs of a baseline and another arm at the same load.")
        return
    answered = headlines[:_MOST_ANSWERS]
    with st.grid(min(2, len(answered)), min_column_width=_MIN_WIDTH, gap="small"):
        for headline in answered:
            answers.show_compact(headline.job_id, tables.title(headline))
    st.caption(f"Verdicts: {READING_WORDS[False]}; headlines use the strict reading: {READING_WORDS[True]}.")
    rows = tables.headlines(headlines)
    show_table(rows, tables.HEADLINE_COLUMNS, "The headline of each target", View(""), "headlines")
    st.caption(
        "Per target: the arm with the strongest evidence of a speed-up (geometric mean over all of its cells), with "
        "its study's verdict and interval."
    )
    if any(headline.arm is None for headline in headlines):
        st.caption(
            "One repeat gives no interval, because it does not show how much runs vary. Use three repeats or more."
        )


def show_ended(ended: pd.DataFrame) -> None:
    if ended.empty:
        return
    st.subheader("Finished last", anchor=False)
    st.dataframe(
        ended,
        hide_index=True,
        placeholder="",
        column_config=tables.ENDED_COLUMNS,
        alt="The studies that finished last",
    )


def show_verification(report: HostReport | None) -> None:
    """Show administrators the last findings of `drafthouse verify` on this host."""
    if report is None:
        return
    wrong = sum(not finding.ok for finding in report.findings)
    words = "all lines ok" if not wrong else f"{wrong} of {count(len(report.findings), 'line')} wrong"
    icon = ":material/verified:" if not wrong else ":material/warning:"
    with st.expander(f"This host, verified {moment(report.at)}: {words}", icon=icon, expanded=bool(wrong)):
        st.table(tables.verification(report.findings))
        if report.job_id is not None:
            parameters = {JOB.key: report.job_id}
            st.page_link(page_file("results"), label="Its study", icon=":material/monitoring:", query_params=parameters)


@st.fragment(run_every=_POLL_EVERY)
def follow(published: published_data.Publication, shown: Sequence[str]) -> None:
    """Rerun the page at a new publication, or when the queued and running studies change."""
    with show_user_errors():
        active = [job.job_id for job in queue.active(published_data.engine())]
    if published_data.publication() != published or active != list(shown):
        st.rerun()


def now_card(active: Sequence[Job]) -> Card:
    """Return the card of running studies, or of how many are queued."""
    running = [job for job in active if job.state == "running"]
    queued = sum(job.state == "queued" for job in active)
    waiting = f"{count(queued, 'study waits', 'studies wait')} in the queue" if queued else "nothing waits in the queue"
    if running:
        return Card("Now", f"{len(running)} running", f"{'; '.join(map(_progress_words, running))}; {waiting}")
    return Card("Now", f"{queued} waiting" if queued else "idle", f"No study is running; {waiting}")


def _progress_words(job: Job) -> str:
    progress = job.progress
    if progress is None:
        return f"{job.name}: the engine is about to start"
    left = "" if progress.remaining_s is None else f", about {duration(progress.remaining_s)} left"
    return f"{job.name}: {progress.runs_done} of {count(progress.runs_total, 'run')}{left}"


def finished_card(ended: pd.DataFrame) -> Card:
    """Return the card of the last finished study. `ended`: as `tables.ended` returns it."""
    label = "Finished last"
    if ended.empty:
        return Card(label, "–", "No study has ended yet")
    last = ended.iloc[0]
    when = last["ended"]
    state = last["state"][0]
    return Card(label, last["study"], f"{state}, runs: {last['runs']}; {moment(None if pd.isna(when) else when)}")


def measured_card(studies: pd.DataFrame) -> Card:
    """Return the card of measured runs. `studies`: as `queries.jobs_with_results` returns it, or empty."""
    label = "Measured"
    if studies.empty:
        return Card(label, "no runs", "The warehouse is empty")
    sums = ["runs_completed", "runs_invalid", "runs_failed"]
    here, imported = studies[studies["origin"] != "imported"], studies[studies["origin"] == "imported"]
    counts = tables.run_counts(here[sums].sum().to_dict())
    of = f"{count(len(here), 'study', 'studies')} of {count(here['target'].nunique(), 'target')}; {counts.lost}"
    more = f"; besides, {count(tables.run_counts(imported[sums].sum().to_dict()).completed, 'imported run')}"
    return Card(label, count(counts.completed, "run"), of + (more if len(imported) else ""))


def workers_card(workers: Sequence[WorkerInfo], at_work: Collection[str], now: datetime) -> Card:
    """Return the card of the present workers: how many are free, their hardware, GPUs and engines."""
    label = "Workers"
    present = [worker for worker in workers if not worker.is_away(now)]
    if not present:
        away = f"{len(workers)} away; " if workers else ""
        return Card(label, "none", f"{away}start one with drafthouse up or drafthouse worker")
    idle = [worker for worker in present if worker.worker not in at_work]
    waiting = [f"{worker.slot_name} waits: {worker.waits_for}" for worker in idle if worker.waits_for]
    # A card has room for one reason; the list of workers has them all.
    reasons = waiting if len(waiting) < 2 else [f"{len(waiting)} wait: Jobs says for what"]
    free = len(idle) - len(waiting)
    slots = any(worker.slot for worker in present)
    gpus = sum(worker.gpus for worker in present)
    hardware = ", ".join(sorted({worker.hardware for worker in present}))
    engines = ", ".join(sorted({engine_names(worker) for worker in present}))
    busy = [f"{len(present) - len(idle)} busy"] if len(idle) < len(present) else []
    none_free = ", ".join(busy + ([f"{len(waiting)} waiting"] if waiting else []))
    return Card(
        label,
        (f"{free} of {len(present)} slots free" if slots else f"{free} free") if free else none_free,
        "; ".join((*reasons, hardware, count(gpus, "GPU"), f"engines: {engines}")),
    )


if __name__ == "__main__":
    show_page()
