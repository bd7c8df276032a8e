"""File uploaders that drop a file after its check, so that it is not sent again with the next one."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.uploaded_file_manager import UploadedFile

from access.web.page_sessions import PAGE_SESSIONS


def choose_files(
    label: str, types: Sequence[str], key: str, max_mib: int, *, multiple: bool = False, help_text: str | None = None
) -> list[UploadedFile]:
    """Show an uploader and return the files in it. The browser refuses larger files and says so beside their names.

    The server takes files only for pages that have shown one.
    """
    if (context := get_script_run_ctx(suppress_warning=True)) is not None:
        PAGE_SESSIONS.offer_upload(context.session_id, max_mib)
    chosen = st.file_uploader(
        label,
        list(types),
        accept_multiple_files=multiple,
        key=f"{key}-{st.session_state.get(_rounds(key), 0)}",  # another one after each `forget`
        max_upload_size=max_mib,
        help=help_text,
    )
    if chosen is None:
        return []
    return chosen if isinstance(chosen, list) else [chosen]


def forget(key: str) -> None:
    """Empty the uploader from the next run of the page on."""
    st.session_state[_rounds(key)] = st.session_state.get(_rounds(key), 0) + 1


def _rounds(key: str) -> str:
    return f"{key}-uploads"
