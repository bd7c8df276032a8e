"""The study that the form starts from: a preset, its version for the reference pair, or a study submitted before.

A link may name it: `?preset=friday-night`, with `&reference=true` for the small version; `?from_job=` with a job's id,
with `&decide=` and a metric for a study that decides its inconclusive verdicts, or `&tune=` and one of its workloads
for its tuning; or `?study=` with the beginning of a study's digest. `?job=` is the study in the bar, as on every page.

Loading another study over unsaved edits can be undone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from jobs import queue
from jobs.presets import load_preset
from lab.errors import UserError
from lab.study import Study
from lab.study.reference_pair import reference_version
from lab.tuning.beginning import tuning_of
from webapp.pages.submit import editing, form_options
from webapp.pages.submit.editing import Edits
from webapp.shared import published_data, undo_banner, url_params
from webapp.shared.errors import callback, show_user_errors
from webapp.shared.text import literal, sentence
from webapp.shared.verdicts import answers
from webapp.shared.verdicts.answers import DECIDE, FROM_JOB, TUNE

_YES = ("true", "1", "yes")
_IN_URL = ("preset", "reference", FROM_JOB, DECIDE, TUNE, "study")
_MAX_JOBS = 50
#: The most letters of a study's name in the message about replaced edits.
_MAX_LETTERS = 80
_UNDO = "submit"
_START, _CHOICE, _REFERENCE, _MISSING = "submit-start", "submit-start-choice", "submit-reference", "submit-missing"


@dataclass(frozen=True)
class Start:
    """A preset's name, or a job's id if `kind` is `FROM_JOB`. `decides`: the metric of the inconclusive verdicts.
    `tunes`: the workload to tune the drafts for.
    """

    kind: str
    name: str
    reference: bool = False
    decides: str = ""
    tunes: str = ""

    @property
    def query(self) -> dict[str, str]:
        options = {"reference": "true" if self.reference else "", DECIDE: self.decides, TUNE: self.tunes}
        return {self.kind: self.name} | {name: value for name, value in options.items() if value}


_DEMO = Start("preset", form_options.DEMO)


def ensure() -> None:
    """Fill the form with the draft or the study that the link names, or on the first visit with the demo study."""
    if (draft := editing.find_draft()) is not None:
        _continue(Start(**draft[0]), draft[1])
        return
    requested = _from_link()
    if not editing.is_filled():
        _load(_DEMO)
    if requested is not None and requested != st.session_state[_START]:
        _try(requested)


def save_draft() -> None:
    """Save unsaved edits, so that they survive a reload."""
    editing.save_draft(asdict(st.session_state[_START]))


def _continue(start: Start, edits: Edits) -> None:
    """Continue a draft. If its first study is gone, the draft counts as a change to the demo study."""
    try:
        study = _study(start)
    except UserError:
        start = _DEMO
        study = _study(start)
    editing.begin(study)
    st.session_state.pop(_MISSING, None)
    _restore(edits, start)


def _try(start: Start) -> None:
    try:
        _load(start)
    except UserError as error:
        st.session_state[_MISSING] = str(error)


def _from_link() -> Start | None:
    link = st.query_params
    reference, decides = link.get("reference", "").casefold() in _YES, link.get(DECIDE, "")
    if preset := link.get("preset"):
        return Start("preset", preset, reference)
    if job := link.get(FROM_JOB):
        return Start(FROM_JOB, url_params.job_id_of(job), reference, decides, link.get(TUNE, ""))
    if digest := link.get("study"):
        newest = queue.newest_of_study(published_data.engine(), digest)
        return Start(FROM_JOB, digest if newest is None else newest.job_id, reference)
    return None


def _load(start: Start) -> None:
    """Fill the form with another study. Raises UserError for an unknown preset or job."""
    study = _study(start)
    _offer_undo()
    editing.begin(study)
    st.session_state.pop(_MISSING, None)
    _set_start(start, without=(*_IN_URL, url_params.EDITS))


def _offer_undo() -> None:
    """Record unsaved edits that another study is about to replace, so that they can be restored."""
    undo_banner.clear(_UNDO)
    before: Start | None = st.session_state.get(_START)
    edits = None if before is None else editing.unsaved()
    if before is None or edits is None:
        return
    name = str(edits.values.fields["name"] or "an unnamed study")
    shown = name if len(name) <= _MAX_LETTERS else f"{name[:_MAX_LETTERS]}…"
    message = f"Your changes to “{shown}” were replaced."
    undo_banner.record(_UNDO, message, icon=":material/edit_off:", undo=lambda: _restore(edits, before))


def _restore(edits: Edits, start: Start) -> None:
    editing.restore(edits)
    _set_start(start)


def _set_start(start: Start, without: Collection[str] = _IN_URL) -> None:
    st.session_state[_START] = start
    view: dict[str, str | list[str]] = {
        key: st.query_params.get_all(key) for key in st.query_params if key not in without
    }
    if start != _DEMO:
        view.update(start.query)
    st.query_params.from_dict(view)


def _study(start: Start) -> Study:
    study = load_preset(start.name) if start.kind == "preset" else queue.job(published_data.engine(), start.name).study
    if start.decides:
        study = answers.next_study_of(study, start.name, start.decides) or study
    if start.tunes:
        study = tuning_of(study, workload=start.tunes)
    return reference_version(study) if start.reference else study


def show() -> DeltaGenerator:
    """Draw the choice of the first study, and a description of the chosen preset; return the place of `Start over`."""
    start: Start = st.session_state[_START]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _show_choice(start)
        _show_reference_toggle(start)
        start_over = st.container(width="content")
    undo_banner.show(_UNDO)
    _show_about(start)
    if missing := st.session_state.get(_MISSING):
        st.warning(f"This link names a study that does not exist here: {literal(missing)}.", icon=":material/link_off:")
    return start_over


def show_start_over(place: DeltaGenerator) -> None:
    """Draw the button once the form has been read: it is disabled while there is no change to discard."""
    unchanged = editing.unsaved() is None
    place.button(
        "Start over", icon=":material/replay:", help="Discard all changes", disabled=unchanged, on_click=_start_over
    )


@callback
def _start_over() -> None:
    _load(st.session_state[_START])


def _show_choice(start: Start) -> None:
    with show_user_errors():
        titles = {
            Start("preset", preset.name): f"{preset.name}: {preset.title.replace('`', '')}"
            for preset in form_options.presets()
        }
        newest = {job.study_id: job for job in reversed(queue.jobs(published_data.engine(), limit=_MAX_JOBS))}
        for job in reversed(newest.values()):
            titles[Start(FROM_JOB, job.job_id)] = url_params.job_label(job.name, job.job_id)
    plain = Start(start.kind, start.name)
    st.session_state[_CHOICE] = plain
    st.selectbox(
        "Start from",
        list(dict.fromkeys([*titles, plain])),
        format_func=lambda option: titles.get(option, option.name),
        key=_CHOICE,
        on_change=_chosen,
        help="Presets repeat published experiments; studies submitted here are listed below them",
    )


def _show_reference_toggle(start: Start) -> None:
    """Draw the toggle, but not for the demo, which uses the reference pair already."""
    if (start.kind, start.name) == (_DEMO.kind, _DEMO.name):
        return
    st.session_state[_REFERENCE] = start.reference
    with st.container(width="content"):
        st.toggle(
            "Use the reference pair",
            key=_REFERENCE,
            on_change=_chosen,
            help="The same arms, workloads and loads, scaled down to the models included here: minutes on a CPU",
        )


@callback
def _chosen() -> None:
    chosen: Start = st.session_state[_CHOICE]
    reference = bool(st.session_state.get(_REFERENCE, False)) and chosen != _DEMO
    _try(Start(chosen.kind, chosen.name, reference))


def _show_about(start: Start) -> None:
    if start.decides:
        with show_user_errors():
            st.caption(literal(answers.follow_up_sentence(start.name, start.decides)))
    about = next((of.about for of in form_options.presets() if (of.name, start.kind) == (start.name, "preset")), "")
    if about:
        changed = "The preset, before your changes: " if editing.unsaved() is not None else ""
        st.caption(sentence(changed + about))
