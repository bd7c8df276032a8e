"""Tables as the pages show them, with links to runs and buttons for files."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from webapp.shared import downloads
from webapp.shared.url_params import View


def show_table(frame: pd.DataFrame, config: dict[str, Any], title: str, view: View, key: str) -> None:
    """A table with buttons for its files. Runs link to their pages if the view or the row names the study."""
    shown = with_run_links(frame, *view.parameters.get("job", ()))
    st.dataframe(shown, hide_index=True, column_config=config, alt=title, placeholder="")
    downloads.show_table_buttons(frame, title, view, key)


def with_run_links(frame: pd.DataFrame, job_id: str | None = None) -> pd.DataFrame:
    """Replace the ids of runs by links to their pages; `job_id`: the study of all rows. Published runs have no page."""
    if "run_id" not in frame or (job_id is None and "job_id" not in frame):
        return frame
    jobs = frame["job_id"] if job_id is None else [job_id] * len(frame)
    pairs = zip(jobs, frame["run_id"], frame.get("origin", [None] * len(frame)), strict=True)
    links = [
        f"run?job={job}&run={run}" if isinstance(run, str) and origin != "published" else None
        for job, run, origin in pairs
    ]
    return frame.assign(run_id=pd.Series(links, index=frame.index, dtype=object))
