"""A study's answer: a line for each metric that decides, what is inconclusive, and a link to its follow-up."""

from __future__ import annotations

import streamlit as st

from lab.advice.answer import Answer
from lab.advice.answer_text import Sentences, sentences
from lab.advice.answer_text import label as label_of
from lab.advice.metric_lines import METRICS, Line, lines
from lab.advice.next_study import follow_up, next_study
from lab.advice.next_study import sentence as sentence_of
from lab.study import Study
from lab.study.duration import rough_duration
from warehouse.queries.comparing.answers import study_answer
from warehouse.queries.comparing.stored import FIRST
from warehouse.queries.comparing.tunings import answered
from webapp.shared import published_data
from webapp.shared.text import count, literal
from webapp.shared.url_params import JOB, page_file

#: Parameters of links to Submit: a job; the metric whose inconclusive verdicts a study like the job's decides;
#: the workload that the job's drafts are tuned for.
FROM_JOB, DECIDE, TUNE = "from_job", "decide", "tune"
THROUGHPUT = "output_tok_per_s"
#: Answer to a study that only searches for capacities.
_CAPACITY = "capacity"
_ICONS = {
    "better": ":green[:material/check_circle:]",
    "not better": ":orange[:material/do_not_disturb_on:]",
    "inconclusive": ":blue[:material/experiment:]",
}


def show(job_id: str, metric: str = THROUGHPUT, judgement: str = FIRST) -> None:
    """Show a line for each metric that decides, and what to measure next; nothing while the study has no valid run of
    its baseline.
    """
    answer = answer_of(job_id, metric, judgement)
    if answer is None:
        return
    text, found = sentences(answer), _lines(job_id, answer, judgement)
    with st.container(border=True, gap="xsmall"):
        st.markdown("  \n".join(_line(line) for line in found) or f"**{literal(text.headline)}**")
        _show_next(job_id, answer)
        for control, sentence in zip(answer.controls, text.controls, strict=True):
            if control.is_alarming:
                st.warning(literal(sentence), icon=":material/warning:")


def show_next(job_id: str) -> None:
    """Show what an ended study leaves inconclusive and what to measure next; nothing without results."""
    answer = None if published_data.publication() is None else answer_of(job_id)
    if answer is not None:
        _show_next(job_id, answer)


def _show_next(job_id: str, answer: Answer) -> None:
    if said := sentence_of(answer):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**By {literal(label_of(answer.metric))}:** {literal(said)}")
            _link_next_study(job_id, answer)


def show_details(job_id: str, metric: str, judgement: str = FIRST) -> None:
    """Show what the answer says of each workload, over all cells and of controls, and the rules of its intervals."""
    answer = answer_of(job_id, metric, judgement)
    if answer is not None:
        text = sentences(answer)
        said = (*text.workloads, text.over_all, *text.controls)
        st.markdown("\n".join(f"- {literal(line)}" for line in said if line))
        st.caption(literal(text.reading))


def show_line(job_id: str, title: str) -> None:
    """Show the first line of an answer beside a title in Markdown, and the metrics that are inconclusive."""
    found = lines_of(job_id)
    if not found:
        return
    st.markdown(f"{title}  \n{_line(found[0])}")


def lines_of(job_id: str) -> list[Line]:
    """Return the line of each metric that decides, those with a verdict first; none without a valid baseline run."""
    answer = answer_of(job_id)
    return [] if answer is None else _lines(job_id, answer, FIRST)


def answer_of(job_id: str, metric: str = THROUGHPUT, judgement: str = FIRST) -> Answer | None:
    """Return the answer by a metric, or by capacity for a study that only searches; None without a valid baseline
    run.
    """
    found = (_answer(job_id, name, judgement) for name in (metric, _CAPACITY))
    return next((answer for answer in found if answer is not None), None)


def text_of(job_id: str) -> Sentences | None:
    """Return the answer in sentences; None while the study has no valid run of its baseline."""
    answer = answer_of(job_id)
    return None if answer is None else sentences(answer)


def next_study_of(study: Study, job_id: str, metric: str = THROUGHPUT) -> Study | None:
    """Return the follow-up of a job of this study: what would decide what its answer leaves inconclusive; None if
    nothing is, or if its arms, workloads or loads are not in the study.
    """
    answer = answer_of(job_id, metric)
    return None if answer is None else next_study(study, answer)


def follow_up_sentence(job_id: str, metric: str) -> str:
    """Return what is inconclusive and what to measure next; empty if nothing is."""
    answer = answer_of(job_id, metric)
    return "" if answer is None else sentence_of(answer)


def _lines(job_id: str, asked: Answer, judgement: str) -> list[Line]:
    """Return the lines of all metrics that decide, and that of the requested one."""
    names = [*METRICS] if asked.metric in METRICS else [asked.metric, *METRICS]
    found = [_answer(job_id, name, judgement) for name in names]
    return lines([answer for answer in found if answer is not None])


def _line(line: Line) -> str:
    name, _, claim = line.claim.partition(": ")
    tally = f" :gray[{literal(line.tally)}]" if line.tally else ""
    return f"{_ICONS[line.word]} **{literal(name)}:** {literal(claim)}{tally}"


def _link_next_study(job_id: str, answer: Answer) -> None:
    """Show a link to the Submit page with the follow-up; none for a study that was not submitted here.

    A tuning searches for the best setting and has its own report.
    """
    job = published_data.job(job_id)
    if job is None:
        return
    if job.study.tune is not None:
        label, query = "What the tuning found", {JOB.key: job_id}
        st.page_link(page_file("deploy"), label=label, icon=":material/tune:", query_params=query)
        return
    plan, proposed = follow_up(answer), next_study(job.study, answer)
    if plan is None or proposed is None:
        return
    takes = published_data.forecast(proposed)
    st.page_link(
        page_file("submit"),
        label=f"Set up the follow-up: {plan.what}, about {rough_duration(takes.wall_s)}",
        icon=":material/experiment:",
        query_params={FROM_JOB: job_id, DECIDE: answer.metric},
        help=f"Opens the Submit page with {literal(', '.join(arm.name for arm in proposed.arms))} on "
        f"{count(len(proposed.workloads), 'workload')} and {count(len(proposed.loads), 'load')}: "
        f"{count(takes.runs, 'run')}, {count(takes.requests, 'request')}. The number of repeats is an estimate, which "
        "suffices in about half of all cases.",
    )


@published_data.cached_by_publication()
def _answer(job_id: str, metric: str, judgement: str) -> Answer | None:
    comparison = published_data.comparison(job_id, metric, judgement)
    return None if comparison is None else study_answer(published_data.with_warehouse(answered)(comparison))
