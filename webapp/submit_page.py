"""The submit page around its form: where a study comes from, what it will take, and sending it off."""

from __future__ import annotations

import time
from typing import TypedDict

import streamlit as st

from lab.errors import StudyError
from lab.plan import estimate_s, plan
from lab.study import Study
from lab.study_text import study_to_toml
from webapp import data, drawing, params, study_editor, study_problems
from webapp.headline import Card
from webapp.study_form import to_study
from webapp.study_problems import Problem
from webapp.text import count, duration, literal
from workers import queue

#: A second click within this time is a double click, not a second study.
_DOUBLE_CLICK_S = 3.0
_REFUSED, _RECEIPT = "submit-refused", "submit-receipt"


class Receipt(TypedDict, total=False):
    """The last study that was sent off in this session."""

    digest: str
    job_id: str
    name: str
    at: float


def show_sources() -> None:
    """Start over from the demo, or from a study that somebody wrote down."""
    with st.container(horizontal=True, width="content"):
        if st.button("Demo study", icon=":material/replay:", help="Fill the form with the demo study again"):
            study_editor.load(study_editor.DEMO_FILE.read_text(encoding="utf-8"))
        with st.popover("From TOML", icon=":material/upload_file:"):
            pasted = st.text_area("Paste a study", height=220, placeholder='name = "my study"\ntarget = "reference"\n…')
            uploaded = st.file_uploader("or upload a file", type=["toml"])
            if st.button("Fill the form", type="primary", width="stretch"):
                _fill(uploaded.getvalue() if uploaded else pasted.encode())


def _fill(raw: bytes) -> None:
    try:
        study_editor.load(raw.decode())
    except UnicodeDecodeError as error:
        st.error(f"This file is not text in UTF-8: {literal(error)}")
    except StudyError as error:
        for field, sentence in error.problems:
            st.error(f"**{literal(field)}** {literal(sentence)}" if field else literal(sentence))
    else:
        st.session_state.pop(_REFUSED, None)
        st.toast("The form holds this study now.")


def check_form() -> Study | None:
    """Draw the form with every problem beside its field. The study it describes, or None while it describes none.

    A problem is known only after the form was read, and belongs above what was read: so a change in what is wrong
    draws the page once more.
    """
    shown: list[Problem] = st.session_state.get("submit-problems", [])
    values = study_editor.edit(shown)
    study, problems = None, []
    try:
        study = to_study(values)
        problems = _refusal(study)
    except StudyError as error:
        problems = error.problems
    if problems != shown:
        st.session_state["submit-problems"] = problems
        st.rerun()
    for sentence in study_problems.elsewhere(problems, study_editor.FIELDS):
        st.error(literal(sentence))
    if study is None:
        st.info(f"{count(len(problems), 'thing')} to mend before this study can be submitted.", icon=":material/edit:")
    return study


def _refusal(study: Study) -> list[Problem]:
    """What the queue said when this very study was sent to it."""
    digest, problems = st.session_state.get(_REFUSED, (None, []))
    return list(problems) if digest == study.digest() else []


def show_plan(study: Study) -> None:
    launches = plan(study)
    runs = [run for launch in launches for run in launch.runs]
    requests = sum(run.load.num_prompts for run in runs)
    drawing.show_cards(
        [
            Card(
                "Engine starts",
                f"{len(launches):,}",
                "one per arm and repeat" if study.order == "interleaved" else "one per arm",
            ),
            Card("Runs", f"{len(runs):,}", "arms × workloads × loads × repeats"),
            Card("Requests", f"{requests:,}", "over all runs, without warm-up"),
            Card("About", duration(estimate_s(launches)), "a rough guess for a machine without a GPU"),
        ]
    )


def show_submit(study: Study) -> None:
    receipt: Receipt = st.session_state.setdefault(_RECEIPT, Receipt())
    again = receipt.get("digest") == study.digest()
    with st.container(horizontal=True, vertical_alignment="center"):
        label = "Submit again" if again else "Submit study"
        if st.button(label, type="secondary" if again else "primary", icon=":material/send:"):
            _submit(study, receipt)
            st.rerun()
        if again:
            _show_receipt(receipt)


def _submit(study: Study, receipt: Receipt) -> None:
    """The receipt is changed in place: a second click may end this run at any access to the session's state."""
    digest = study.digest()
    if receipt.get("digest") == digest and time.monotonic() - receipt["at"] < _DOUBLE_CLICK_S:
        return
    try:
        job_id = queue.submit(data.settings(), study)
    except StudyError as error:
        st.session_state[_REFUSED] = (digest, error.problems)
        return
    receipt.update(Receipt(digest=digest, job_id=job_id, name=study.name, at=time.monotonic()))


def _show_receipt(receipt: Receipt) -> None:
    st.markdown(f":green[:material/check_circle:] Submitted as `{receipt['job_id']}`", width="content")
    st.page_link(
        "views/jobs.py",
        label="Watch it on the Jobs page",
        icon=":material/arrow_forward:",
        query_params={params.JOB.key: params.job_label(receipt["name"], receipt["job_id"])},
    )


def show_toml(study: Study) -> None:
    with st.expander("This study as TOML", icon=":material/code:"):
        st.caption("The same study for a file: `drafthouse submit study.toml`")
        st.code(study_to_toml(study), language="toml")
