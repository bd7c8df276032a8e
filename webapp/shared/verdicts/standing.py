"""Since when a study's verdicts stand and what they rest on, the choice among several, and the button that adds one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import streamlit as st

from access.web import visitor
from jobs.judging import judge_again
from lab.roles import Change
from warehouse.queries.comparing import stored
from warehouse.queries.comparing.comparisons import StudyComparison
from webapp.shared import published_data, url_params, url_widgets
from webapp.shared.errors import show_user_errors
from webapp.shared.text import literal
from webapp.shared.url_params import first

#: Offered where no verdict was stored when the study ended.
_NOW = "computed now"
#: Of the earlier studies that inform the noise.
_MOST_NAMED = 5
#: Of the sentence and of the button beside it.
_WIDTHS = (5, 1)
_judgings = published_data.published_query()(stored.judgings)


def judgements(job_id: str) -> dict[str, str]:
    """Return the ids of a job's judgements by their labels; the one from the job's end comes first."""
    judged = _judgings((job_id,))
    default = next((judging for judging in judged if judging.is_default), None)
    shown = {_NOW if default is None else default.label: stored.FIRST}
    return shown | {judging.label: judging.judgement_id for judging in judged if judging is not default}


def of_link(job_id: str, parameters: Mapping[str, Sequence[str]]) -> str:
    """Return the judgement that a link names; that of when the study ended if it names none, or an unknown one."""
    return judgements(job_id).get(first(parameters, url_params.JUDGEMENT), stored.FIRST)


def choose(job_id: str) -> str:
    """Let the reader choose a judgement if there are several, and return its id."""
    offered = judgements(job_id)
    if len(offered) == 1:
        return stored.FIRST
    label = url_widgets.choose(
        url_params.JUDGEMENT, list(offered), help_text="Verdicts are stored; judging again adds some beside the first"
    )
    url_widgets.report_missing(url_params.JUDGEMENT)
    return offered[label]


def link(job_id: str, judgement: str) -> dict[str, tuple[str, ...]]:
    """Return the parameter of a link to a judgement; none for that of when the study ended."""
    if judgement == stored.FIRST:  # commands make links, too, of warehouses that are not the page's
        return {}
    label = next(label for label, judgement_id in judgements(job_id).items() if judgement_id == judgement)
    return {url_params.JUDGEMENT.key: (label,)}


def show(comparison: StudyComparison) -> None:
    """Show when the verdicts were stored, and what they allow for other metrics."""
    since = stored.NOT_STORED if comparison.stored is None else comparison.stored.judging.sentence
    many = stored.multiplicity(strict=comparison.strict)
    noise = f" Noise: informed by {literal(_earlier(comparison.history_jobs))}." if comparison.history_jobs else ""
    words, button = st.columns(_WIDTHS, vertical_alignment="center")
    words.caption(f"{_sentence(since)} {_sentence(many)}{noise}")
    if len(comparison.jobs) == 1 and comparison.pairs and visitor.allowed_any(Change.JUDGE):
        with button:
            _show_button(comparison.jobs[0])


def show_change(comparison: StudyComparison) -> None:
    """Show why the verdicts may be others today; nothing if nothing is known to have changed."""
    if because := comparison.changed_because:
        st.warning(f"Changed because: {literal(because)}. The stored verdicts are shown.", icon=":material/history:")


def _sentence(words: str) -> str:
    return literal(f"{words[:1].upper()}{words[1:]}.")


def _earlier(jobs: Sequence[str]) -> str:
    """Return `the earlier studies demo (2026-…), …`."""
    studies = published_data.studies_with_results().set_index("job_id")["study_name"]
    named = [f"{studies.get(job, 'a removed study')} ({job})" for job in jobs[:_MOST_NAMED]]
    more = f" and {len(jobs) - len(named)} more" if len(jobs) > len(named) else ""
    return f"the earlier {'study' if len(jobs) == 1 else 'studies'} {', '.join(named)}{more}"


def _show_button(job_id: str) -> None:
    if st.button(
        "Judge again",
        icon=":material/gavel:",
        help="Stores verdicts with the history and the analysis of today beside these, which stay the ones shown",
    ):
        with show_user_errors():
            judge_again(published_data.settings(), published_data.engine(), job_id, actor=visitor.actor())
            st.toast("Judged again: choose the new verdicts at Judged as soon as they are published", icon="⚖️")
