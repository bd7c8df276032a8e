"""The study being edited, as a form or as TOML text, and its draft.

The form's values live as long as the visitor's session. Unsubmitted edits are saved as a draft in the app database,
under an id in the URL, so they survive a reload. A line that seems to hold a password, a token or a key is not stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import streamlit as st

from access.web import visitor
from jobs.engines.profiles import is_secret
from lab.errors import StudyError
from lab.study import Study
from lab.study.parsing import study_from_toml
from warehouse.app_db import drafts
from webapp.pages.submit import arms, inputs, study_fields
from webapp.pages.submit.inputs import Fields, ShownProblem
from webapp.pages.submit.values import FIELDS, TABLES, FormValues, Problem, Row, from_study, to_toml
from webapp.shared import published_data
from webapp.shared.url_params import EDITS

FORM, TOML = "Form", "TOML"
_INITIAL, _CURRENT, _BEGUN = "submit-initial", "submit-current", "submit-begun"
_MODE, _TEXT = "submit-mode", "submit-text"
#: Set while the form cannot be shown because the text is not a valid study, and while the text has yet to be written.
_INVALID, _PENDING = "submit-text-invalid", "submit-text-pending"
_MIN_LINES, _MAX_LINES, _LINE_HEIGHT = 12, 34, 21
#: Width in pixels below which workloads and loads are stacked.
_MIN_WIDTH = 560
#: The id of this session's draft, and its state as it was saved.
_PAGE, _DRAFT_ID, _SAVED = "submit", "submit-draft-id", "submit-draft-saved"
#: Key before `=` or `:` in TOML, YAML and NAME=value.
_NAME = re.compile(r"""([\w-]+)["']?\s*[=:]""")
#: Well-known forms of keys, and a password in an address.
_KEY = re.compile(r"\b(?:hf_|sk-|gh[pousr]_)[\w-]{12,}|//[^/\s]*:[^/\s]*@")
#: Fields of a server that name a secret, and the header that gets it.
_NAMES_OF_SECRETS = {"api_key", "api_key_header"}


@dataclass(frozen=True)
class Edits:
    """The form's values, and the study as text if that was being edited and differs from the form."""

    values: FormValues
    text: str | None


def begin(study: Study) -> None:
    """Fill the form and the text with this study; later changes count as unsaved."""
    _fill(from_study(study))
    st.session_state[_BEGUN] = to_toml(_current())
    if st.session_state.get(_MODE) == TOML:
        _write_text()


def unsaved() -> Edits | None:
    """Return the changes to the study that `begin` was given, or None."""
    text = None
    if st.session_state.get(_MODE) == TOML and _TEXT in st.session_state:
        text = None if st.session_state[_TEXT] == to_toml(_current()) else st.session_state[_TEXT]
    if text is None and to_toml(_current()) == str(st.session_state[_BEGUN]):
        return None
    return Edits(_current(), text)


def restore(edits: Edits) -> None:
    """Show edits again; they still count as changes to the study that `begin` was given."""
    _fill(edits.values)
    if edits.text is not None:
        st.session_state[_MODE] = TOML
    if st.session_state.get(_MODE) == TOML:
        _write_text(edits.text)


def is_filled() -> bool:
    return _CURRENT in st.session_state


def _fill(values: FormValues) -> None:
    st.session_state[_INITIAL] = values.fields
    st.session_state[_CURRENT] = values
    inputs.begin(**{table: getattr(values, table) for table in TABLES})


def _current() -> FormValues:
    """Return the form's values, whether the form is shown or not."""
    values: FormValues = st.session_state[_CURRENT]
    return values


def edit_form(problems: Sequence[ShownProblem]) -> FormValues:
    """Draw the form, each problem beside its field, and return its values."""
    if inputs.key("name") not in st.session_state:
        # Back from another page: Streamlit forgot the widgets, but not the session state.
        _fill(_current())
    initial: Row = st.session_state[_INITIAL]
    fields = study_fields.edit_first(initial, problems)
    arm_rows = arms.edit(problems, str(fields["target"]), Fields(Study, initial).value("engine_flags") or "")
    with st.grid(2, min_column_width=_MIN_WIDTH, gap="small"):
        workloads = study_fields.edit_workloads(problems)
        loads = study_fields.edit_loads(problems)
    fields |= study_fields.edit_more(initial, problems)
    values = FormValues(fields, arm_rows, workloads, loads)
    st.session_state[_CURRENT] = values
    return values


def show_switch() -> bool:
    """Draw the switch between form and text; return whether the text is selected."""
    st.session_state.setdefault(_MODE, FORM)
    mode = st.segmented_control(
        "Edit as",
        [FORM, TOML],
        required=True,
        key=_MODE,
        on_change=_switched,
        persist_state="session",
        label_visibility="collapsed",
    )
    return bool(mode == TOML)


def _switched() -> None:
    """Fill the form from the text. A text that is not a valid study stays, and its problems are shown."""
    if st.session_state[_MODE] == TOML:
        st.session_state[_PENDING] = True
        return
    try:
        study = study_from_toml(st.session_state[_TEXT])
    except StudyError:
        st.session_state[_MODE], st.session_state[_INVALID] = TOML, True
        return
    if st.session_state[_TEXT] != to_toml(_current()):
        _fill(from_study(study))


def _write_text(text: str | None = None) -> None:
    """Replace the text, by default with the form's study."""
    st.session_state[_TEXT] = to_toml(_current()) if text is None else text
    st.session_state.pop(_INVALID, None)


def edit_text() -> tuple[Study | None, list[Problem]]:
    """Draw the text; return the study, or None and why it is not valid."""
    if st.session_state.get(_PENDING):  # read the form again: its last edit may have come with the switch
        edit_form([])
        _write_text()
        del st.session_state[_PENDING]
        st.rerun()
    if _TEXT not in st.session_state:
        _write_text()
    lines = min(_MAX_LINES, max(_MIN_LINES, st.session_state[_TEXT].count("\n") + 2))
    options: dict[str, Any] = {"height": _LINE_HEIGHT * lines, "label_visibility": "collapsed"}
    entered = st.text_area("The study in TOML", key=_TEXT, persist_state="session", **options)
    st.caption("Ctrl+Enter checks the text. To submit it from a file: `drafthouse submit study.toml`.")
    try:
        study = study_from_toml(entered or "")
    except StudyError as error:
        if st.session_state.get(_INVALID):
            st.error("Fix these problems before switching to the form.")
        return None, error.problems
    st.session_state.pop(_INVALID, None)
    return study, []


def find_draft() -> tuple[dict[str, Any], Edits] | None:
    """Return what the linked draft started from, and its edits; None if this session has that draft already. From now
    on the session saves its edits there.
    """
    draft_id = st.query_params.get(EDITS)
    if not draft_id or draft_id == st.session_state.get(_DRAFT_ID):
        return None
    state = drafts.load(published_data.engine(), _PAGE, draft_id)
    if state is None or set(state.get("values", {}).get("fields", ())) != set(FIELDS):  # of another version of the form
        return None
    st.session_state[_DRAFT_ID], st.session_state[_SAVED] = draft_id, state
    fields, *tables = state["values"].values()
    return state["start"], Edits(FormValues(fields, *map(tuple, tables)), state["text"])


def save_draft(start: Mapping[str, Any]) -> None:
    """Save unsaved edits as a draft, unless they are saved already."""
    if (edits := unsaved()) is None:
        st.query_params.pop(EDITS, None)
        st.session_state.pop(_SAVED, None)
        return
    values = {part: list(of) if isinstance(of, tuple) else of for part, of in asdict(edits.values).items()}
    state = without_secrets({"start": start, "values": values, "text": edits.text})
    if state == st.session_state.get(_SAVED):
        return
    draft_id = st.session_state.setdefault(_DRAFT_ID, drafts.new_id())
    if drafts.save(published_data.engine(), _PAGE, draft_id, state, actor=visitor.actor()):
        st.session_state[_SAVED] = state
        st.query_params[EDITS] = draft_id


def without_secrets(state: Row) -> dict[str, Any]:
    """Return the state without the lines of its texts that seem to hold a secret."""
    return {key: _clean(value) for key, value in state.items()}


def _clean(value: Any) -> Any:
    if isinstance(value, Mapping):
        return without_secrets(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, str):
        return "\n".join(line for line in value.split("\n") if not _holds_secret(line))
    return value


def _holds_secret(line: str) -> bool:
    names = set(_NAME.findall(line)) - _NAMES_OF_SECRETS
    return bool(_KEY.search(line)) or any(is_secret(name.replace("-", "_")) for name in names)
