"""What was typed and not submitted, saved in the app database under an id in the URL: it survives a reload.

Nothing secret is stored: a line that seems to hold a password, a token or a key is left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from access.web import visitor
from jobs.engines.profiles import is_secret
from warehouse.app_db import drafts
from webapp.pages.submit import form_state, text_editor
from webapp.pages.submit.form_model import FormValues, Row
from webapp.shared import published_data
from webapp.shared.url_params import EDITS

_PAGE = "submit"
#: The id of this session's draft, and its state as it was saved.
_ID, _SAVED = "submit-draft-id", "submit-draft-saved"
#: What stands before `=` or `:` in TOML, YAML and NAME=value.
_NAME = re.compile(r"""([\w-]+)["']?\s*[=:]""")
#: Well-known forms of keys, and a password in an address.
_KEY = re.compile(r"\b(?:hf_|sk-|gh[pousr]_)[\w-]{12,}|//[^/\s]*:[^/\s]*@")
_TABLES = ("arms", "workloads", "loads")


@dataclass(frozen=True)
class Draft:
    """A saved draft. `start` describes what the form had been filled with; `text` is the study as text, if that was
    being edited and differs from the form.
    """

    start: dict[str, Any]
    values: FormValues
    text: str | None


def find() -> Draft | None:
    """The draft that the link names, unless this session has it already; it is this session's from now on."""
    draft_id = st.query_params.get(EDITS)
    if not draft_id or draft_id == st.session_state.get(_ID):
        return None
    state = drafts.load(published_data.engine(), _PAGE, draft_id)
    if state is None or set(state["fields"]) != set(form_state.FIELDS):  # of another version of the form
        return None
    st.session_state[_ID], st.session_state[_SAVED] = draft_id, state
    values = FormValues(state["fields"], *(tuple(state[table]) for table in _TABLES))
    return Draft(state["start"], values, state["text"])


def follow(start: Mapping[str, Any]) -> None:
    """Save what has changed since the last run. A form that is as it was filled needs no draft."""
    text = text_editor.unsaved_text()
    if text is None and not form_state.is_changed():
        st.query_params.pop(EDITS, None)
        st.session_state.pop(_SAVED, None)
        return
    values = form_state.current()
    state = without_secrets(
        {
            "start": dict(start),
            "fields": dict(values.fields),
            **{table: [dict(row) for row in getattr(values, table)] for table in _TABLES},
            "text": text,
        }
    )
    if state == st.session_state.get(_SAVED):
        return
    draft_id = st.session_state.setdefault(_ID, drafts.new_id())
    if drafts.save(published_data.engine(), _PAGE, draft_id, state, actor=visitor.actor()):
        st.session_state[_SAVED] = state
        st.query_params[EDITS] = draft_id


def without_secrets(state: Row) -> dict[str, Any]:
    """The state without the lines of its texts that seem to hold a secret."""
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
    names = _NAME.findall(line)
    return bool(_KEY.search(line)) or any(is_secret(name.replace("-", "_")) for name in names if name != "api_key")
