"""A study's answer at the head of a page: what to deploy, with what confidence, and a link to the study that would
decide the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import streamlit as st

from jobs import queue
from lab.advice.answer import Answer
from lab.advice.answer_text import Sentences, sentences
from lab.advice.next_study import next_study
from lab.errors import UserError
from lab.study import Study
from warehouse.queries.comparing.answers import study_answer
from warehouse.queries.comparing.comparisons import StudyComparison
from warehouse.queries.comparing.stored import FIRST
from warehouse.queries.comparing.tunings import answered
from webapp.shared import published_data
from webapp.shared.text import count, duration, literal
from webapp.shared.url_params import JOB, page_file

#: Parameters of links to Submit: a job; the metric whose inconclusive verdicts a study like the job's decides;
#: the workload that the job's drafts are tuned for.
FROM_JOB, DECIDE, TUNE = "from_job", "decide", "tune"
THROUGHPUT = "output_tok_per_s"
#: Answer to a study that only searches for capacities.
_CAPACITY = "capacity"
_ICONS = {
    "enable": ":green[:material/check_circle:]",
    "leave off": ":orange[:material/do_not_disturb_on:]",
    "inconclusive": ":blue[:material/experiment:]",
}


@dataclass(frozen=True)
class _Asked:
    """An answer with its requested metric, from a link, which may be a short name."""

    metric: str
    answer: Answer


def show(job_id: str, metric: str = THROUGHPUT, judgement: str = FIRST) -> None:
    """Show the answer by a metric in a box of its own; nothing while the study has no valid run of its baseline."""
    asked = _asked(job_id, metric, judgement)
    if asked is not None:
        with st.container(border=True, gap="xsmall"):
            _show(job_id, asked)
            st.caption(literal(sentences(asked.answer).reading))


def show_compact(job_id: str, title: str) -> None:
    """Show the answer below a title in Markdown, without the reading that several answers share."""
    asked = _asked(job_id, THROUGHPUT)
    if asked is not None:
        with st.container(border=True, height="stretch", gap="xsmall"):
            st.markdown(title)
            _show(job_id, asked, heading="#####")


def text_of(job_id: str, metric: str = THROUGHPUT) -> Sentences | None:
    """Return the answer in sentences; None while the study has no valid run of its baseline."""
    asked = _asked(job_id, metric)
    return None if asked is None else sentences(asked.answer)


def next_study_of(study: Study, job_id: str, metric: str = THROUGHPUT) -> Study | None:
    """Return a study that would decide what the answer for a job of this study leaves inconclusive; None if nothing is,
    or if its arms, workloads or loads are not in the study.
    """
    asked = _asked(job_id, metric)
    return None if asked is None else next_study(study, asked.answer)


def _show(job_id: str, asked: _Asked, heading: str = "####") -> None:
    text = sentences(asked.answer)
    st.markdown(f"{heading} {_icon(asked.answer)} {literal(text.headline)}")
    if text.workloads:
        st.markdown("\n".join(f"- {literal(line)}" for line in (*text.workloads, text.over_all) if line))
    for control, sentence in zip(asked.answer.controls, text.controls, strict=True):
        if control.is_alarming:
            st.warning(literal(sentence), icon=":material/warning:")
        else:
            st.caption(literal(sentence))
    if text.inconclusive:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(literal(text.inconclusive), width="content")
            _link_next_study(job_id, asked)


def _link_next_study(job_id: str, asked: _Asked) -> None:
    """Show a link to the Submit page with the deciding study; none for a study that was not submitted here.

    A tuning searches for the best setting and has its own report.
    """
    try:
        study = queue.job(published_data.engine(), job_id).study
    except UserError:
        return
    if study.tune is not None:
        st.page_link(
            page_file("tune"), label="What the tuning found", icon=":material/tune:", query_params={JOB.key: job_id}
        )
        return
    if (proposed := next_study(study, asked.answer)) is None:
        return
    takes = published_data.forecast(proposed)
    st.page_link(
        page_file("submit"),
        label=f"Measure it: {count(proposed.repeats, 'repeat')}, {count(takes.runs, 'run')}, "
        f"{count(takes.requests, 'request')}, about {duration(takes.wall_s)}",
        icon=":material/experiment:",
        query_params={FROM_JOB: job_id, DECIDE: asked.metric},
        help=f"Opens the Submit page with {literal(', '.join(arm.name for arm in proposed.arms))} on "
        f"{count(len(proposed.workloads), 'workload')} and {count(len(proposed.loads), 'load')}. The number of "
        "repeats is an estimate, which suffices in about half of all cases.",
    )


def _icon(answer: Answer) -> str:
    """Return the icon of the next step: enable something somewhere, or leave all off, or measure."""
    actions = {choice.action for choice in answer.choices}
    if "enable" in actions:
        return _ICONS["enable"]
    return _ICONS["leave off" if actions == {"leave off"} else "inconclusive"]


def _asked(job_id: str, metric: str, judgement: str = FIRST) -> _Asked | None:
    """Return the answer; for a study that only searches, by its capacities."""
    for name in (metric, _CAPACITY):
        answer = _answer(job_id, name, judgement)
        if answer is not None:
            return _Asked(name, answer)
    return None


@published_data.cached_by_publication()
def _answer(job_id: str, metric: str, judgement: str) -> Answer | None:
    comparison = published_data.comparison(job_id, metric, judgement)
    return None if comparison is None else study_answer(_answered(job_id, metric, judgement, comparison))


@published_data.published_query()
def _answered(
    connection: duckdb.DuckDBPyConnection, job_id: str, metric: str, judgement: str, _compared: StudyComparison
) -> StudyComparison:
    del job_id, metric, judgement  # the key
    return answered(connection, _compared)
