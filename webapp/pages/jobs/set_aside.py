"""Unreadable jobs, bundles that the ingester rejected and studies that it could not judge, with their tracebacks."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import sqlalchemy as sa
import streamlit as st

from access.web import visitor
from jobs import queue
from jobs.queue import SetAside
from lab.roles import Change
from warehouse.queries import results
from webapp.shared import published_data
from webapp.shared.errors import show_user_errors
from webapp.shared.published_data import published_query
from webapp.shared.text import count, literal, moment

#: More would make the page slow: bundles that are shown, and jobs that are tried, of the newest and of the next ones.
_MOST_SHOWN, _MOST_READ = 20, 50
_rejected_bundles = published_query()(results.rejected_bundles)


def show(engine: sa.Engine) -> None:
    """Show unreadable jobs, rejected bundles and studies without verdicts, if there are any."""
    with show_user_errors():
        jobs = _unreadable(engine, published_data.newest_event(engine))
        bundles = None if published_data.publication() is None else _rejected_bundles()
    if jobs:
        _show_jobs(engine, jobs)
    if bundles is not None and not bundles.empty:
        is_job = ~bundles["path"].str.contains("/")
        _show_rejected(
            bundles[~is_job], ("bundle", "bundles"), "cannot be ingested; a repaired bundle is ingested within a minute"
        )
        _show_rejected(
            bundles[is_job], ("study", "studies"), "cannot be judged; the ingester tries again when it starts"
        )


@st.cache_resource(show_spinner=False, max_entries=1, hash_funcs={sa.Engine: lambda engine: str(engine.url)})
def _unreadable(engine: sa.Engine, newest_event: int) -> Sequence[SetAside]:
    """Read the jobs again after each event: whether one can be read changes with an event or with this program."""
    del newest_event  # part of the key
    return queue.set_aside(engine, _MOST_READ)


def _show_jobs(engine: sa.Engine, jobs: Sequence[SetAside]) -> None:
    head = (
        f"{count(len(jobs), 'job')} cannot be read by this Drafthouse or by a worker; the rest of the queue continues"
    )
    st.warning(head, icon=":material/report:")
    with st.expander("Which, and why"):
        for job in jobs:
            with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
                st.markdown(f"**{literal(job.name)}** :gray[{literal(job.job_id)}, {job.state}]", width="content")
                may_cancel = job.state == "queued" and visitor.allowed(Change.CANCEL, None)
                if may_cancel and st.button("Cancel", key=f"cancel-set-aside-{job.job_id}"):
                    with show_user_errors():
                        queue.cancel(engine, job.job_id, actor=visitor.actor())
                    st.rerun()
            _show_reason(job.reason, job.traceback)


def _show_rejected(rejected: pd.DataFrame, nouns: tuple[str, str], problem: str) -> None:
    if rejected.empty:
        return
    st.warning(f"{count(len(rejected), *nouns)} {problem}", icon=":material/report:")
    with st.expander("Which, and why"):
        for row in rejected.head(_MOST_SHOWN).to_dict("records"):
            st.markdown(f"**{literal(row['path'])}** :gray[since {moment(row['rejected_at'])}]")
            reason, _, trace = row["error"].partition("\n")
            _show_reason(reason, trace)
        if len(rejected) > _MOST_SHOWN:
            st.caption(f"The table `rejected_bundles` on the SQL page has the other {len(rejected) - _MOST_SHOWN}.")


def _show_reason(reason: str, trace: str) -> None:
    st.caption(literal(reason))
    if trace:
        st.code(trace, language=None, wrap_lines=True)
