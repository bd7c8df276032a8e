"""Where the form's study begins: a preset, the same preset scaled down to the reference pair, or a study of before.

A link may ask for it: `?preset=friday-night`, with `&reference=true` for the small version, or `?from_job=` with a
job's id, with `&decide=true` for what its verdicts left open, or `?study=` with the beginning of a study's digest. It
is not the `?job=` of the other pages: that one belongs to their selectbox, and Streamlit takes it out of the link with
it.
"""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from jobs import queue
from jobs.presets import load_preset
from jobs.table import Job
from lab.errors import UserError
from lab.study import Study
from lab.study.reference_pair import reference_version
from webapp.pages.advice import data as advice_data
from webapp.pages.submit import form_options, form_state, text_editor, undo
from webapp.shared import published_data, url_params
from webapp.shared.errors import said_here
from webapp.shared.text import literal

FROM_JOB, DECIDE = "from_job", "decide"
_YES = ("true", "1", "yes")
_MOST_JOBS = 50
_START, _CHOICE, _REFERENCE, _MISSING = "submit-start", "submit-start-choice", "submit-reference", "submit-missing"


@dataclass(frozen=True)
class Start:
    """A preset's name, or a job's id where `kind` is `FROM_JOB`. `decides`: only what its verdicts left open."""

    kind: str
    name: str
    reference: bool = False
    decides: bool = False

    @property
    def query(self) -> dict[str, str]:
        asked = {"reference": self.reference, DECIDE: self.decides}
        return {self.kind: self.name} | {name: "true" for name, wanted in asked.items() if wanted}


def ensure() -> None:
    """Fill the form with what the link asks for; at first, and where it asks for nothing, with the demo study."""
    asked = _asked()
    if not form_state.holds_something():
        _load(Start("preset", form_options.DEMO))
    if asked is not None and asked != st.session_state[_START]:
        _try(asked)


def _try(start: Start) -> None:
    try:
        _load(start)
    except UserError as error:
        st.session_state[_MISSING] = str(error)


def _asked() -> Start | None:
    link = st.query_params
    reference, decides = (link.get(name, "").casefold() in _YES for name in ("reference", DECIDE))
    if preset := link.get("preset"):
        return Start("preset", preset, reference)
    if job := link.get(FROM_JOB):
        return Start(FROM_JOB, url_params.job_id_of(job), reference, decides)
    if digest := link.get("study"):
        found = next((job for job in _jobs() if job.study_id.startswith(digest)), None)
        return Start(FROM_JOB, found.job_id if found else digest, reference)
    return None


def _load(start: Start) -> None:
    """Raises UserError for a preset or a job that is not there."""
    study = _study(start)
    before: Start | None = st.session_state.get(_START)
    if before is not None:
        undo.remember(undo.typed(), lambda: _say_start(before))
    form_state.begin(study)
    text_editor.forget()
    st.session_state.pop(_MISSING, None)
    _say_start(start)


def _say_start(start: Start) -> None:
    st.session_state[_START] = start
    st.query_params.from_dict({} if start == Start("preset", form_options.DEMO) else start.query)


def _study(start: Start) -> Study:
    study = load_preset(start.name) if start.kind == "preset" else queue.job(published_data.engine(), start.name).study
    if start.decides:
        study = advice_data.next_study_of(study, start.name) or study
    return reference_version(study) if start.reference else study


def show() -> None:
    """What can be chosen to start from, and what the chosen one is about."""
    start: Start = st.session_state[_START]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _choice(start)
        _small_version(start)
        with st.container(width="content"):
            again = st.button("Start over", icon=":material/replay:", help="Fill the form with it again")
        if again:
            with said_here():
                _load(start)
            st.rerun()
    undo.show()
    _about(start)
    if missing := st.session_state.get(_MISSING):
        st.warning(f"This link asks for a study that is not here: {literal(missing)}.", icon=":material/link_off:")


def _choice(start: Start) -> None:
    with said_here():
        titles = {
            Start("preset", preset.name): f"{preset.name}: {_plain(preset.title)}" for preset in form_options.presets()
        }
        titles |= {Start(FROM_JOB, job.job_id): url_params.job_label(job.name, job.job_id) for job in _jobs()}
    plain = Start(start.kind, start.name)
    options = list(dict.fromkeys([*titles, plain]))
    st.session_state[_CHOICE] = plain
    st.selectbox(
        "Start from",
        options,
        format_func=lambda option: titles.get(option, option.name),
        key=_CHOICE,
        on_change=_chosen,
        help="A preset repeats a published experiment; below them are the studies that were submitted here",
    )


def _plain(title: str) -> str:
    """A list of choices shows no code in its own letters."""
    return title.replace("`", "")


def _small_version(start: Start) -> None:
    """The demo is of that size already."""
    if start.name == form_options.DEMO and start.kind == "preset":
        return
    st.session_state[_REFERENCE] = start.reference
    with st.container(width="content"):
        st.toggle(
            "On the reference pair",
            key=_REFERENCE,
            on_change=_chosen,
            help="The same arms, workloads and loads, scaled down to the models this project ships: minutes on a CPU",
        )


def _chosen() -> None:
    chosen: Start = st.session_state[_CHOICE]
    reference = bool(st.session_state.get(_REFERENCE, False)) and chosen != Start("preset", form_options.DEMO)
    _try(Start(chosen.kind, chosen.name, reference))


def _about(start: Start) -> None:
    if start.kind == "preset":
        about = next((preset.about for preset in form_options.presets() if preset.name == start.name), "")
        if about:
            st.caption(literal(about))


def _jobs() -> list[Job]:
    """The newest ones, each study once."""
    newest: dict[str, Job] = {}
    for job in queue.jobs(published_data.engine(), limit=_MOST_JOBS):
        newest.setdefault(job.study_id, job)
    return list(newest.values())
