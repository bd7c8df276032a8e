"""Tables as the pages show them, and the columns that several of them have."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from webapp.shared import downloads
from webapp.shared.url_params import View

#: What `with_run_links` gives.
RUN_COLUMN = st.column_config.LinkColumn("Run", display_text=r"run=([^&]*)$")


def show_table(frame: pd.DataFrame, config: dict[str, Any], title: str, view: View, key: str) -> None:
    """A table with its files below it. Each run leads to its page where the view or the row knows the study."""
    shown = with_run_links(frame, *view.parameters.get("job", ()))
    st.dataframe(shown, hide_index=True, column_config=config, alt=title, placeholder="")
    downloads.show_table_buttons(frame, title, view, key)


def with_run_links(frame: pd.DataFrame, job_id: str | None = None) -> pd.DataFrame:
    """Each run leads to its own page: `job_id` is its study, or the row's own. What was published has no page."""
    if "run_id" not in frame or (job_id is None and "job_id" not in frame):
        return frame
    jobs = frame["job_id"] if job_id is None else [job_id] * len(frame)
    pairs = zip(jobs, frame["run_id"], frame.get("origin", [None] * len(frame)), strict=True)
    links = [
        f"run?job={job}&run={run}" if isinstance(run, str) and origin != "published" else None
        for job, run, origin in pairs
    ]
    return frame.assign(run_id=pd.Series(links, index=frame.index, dtype=object))
