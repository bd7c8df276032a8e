"""The state of the SQL page: a query and the chart of its answer, saved under the id that its link carries."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import streamlit as st

from access.web import visitor
from warehouse.app_db import saved_views
from warehouse.sandbox.runner import parameters_of
from webapp.charts.custom import ChartSpec
from webapp.shared import published_data
from webapp.shared.url_params import QUERY

PAGE = "sql"
TEXT = "sql-text"
_CHART, _VIEW_ID, _HISTORY = "sql-chart", "sql-view-id", "sql-history"
_MAX_HISTORY = 30


@dataclass(frozen=True)
class Query:
    """A statement, the chart of its answer, and the values of its parameters."""

    sql: str
    chart: ChartSpec | None = None
    given: tuple[tuple[str, str], ...] = ()


#: By title, the first one first in an empty editor.
EXAMPLES: dict[str, Query] = {
    "Throughput of each arm by concurrency in the newest study": Query(
        """-- the newest study: mean, lowest and highest of the valid repeats of each arm, workload and load
SELECT study_name, workload_label, pattern, concurrency, arm,
    avg(output_tok_per_s) AS output_tok_per_s,
    min(output_tok_per_s) AS lowest,
    max(output_tok_per_s) AS highest,
    count(*) AS runs
FROM valid_latest_runs
WHERE job_id = (SELECT arg_max(job_id, started_at) FROM valid_latest_runs WHERE origin = 'measured')
GROUP BY ALL
ORDER BY workload_label, concurrency, pattern, arm""",
        ChartSpec("line", "concurrency", "output_tok_per_s", "arm"),
    ),
    "Acceptance length by method and category of prompts": Query(
        """SELECT method, coalesce(category, dataset) AS prompts, num_speculative_tokens,
    1 + sum(num_accepted_tokens) / nullif(sum(num_drafts), 0) AS acceptance_length
FROM valid_latest_runs
WHERE num_drafts > 0
GROUP BY ALL
ORDER BY prompts, method""",
        ChartSpec("bar", "prompts", "acceptance_length", "method"),
    ),
    "The slowest requests": Query(
        """-- the view requests has one row per request
SELECT run_id, arm, category, ttft_ms, e2e_ms, prompt_tokens, completion_tokens
FROM requests
WHERE is_completed
ORDER BY e2e_ms DESC
LIMIT 100""",
        ChartSpec("point", "ttft_ms", "e2e_ms", "arm"),
    ),
    "Time per token and acceptance by turn of a session": Query(
        """-- request_groups has each run's numbers by turn, by context, and by both; 9 stands for turns 9 to 16
SELECT arm, concurrency, g.turn, avg(g.tpot_mean_ms) AS tpot_ms, sum(g.requests) AS requests,
    1 + sum(g.num_accepted_tokens) / nullif(sum(g.num_drafts), 0) AS acceptance_length
FROM request_groups AS g JOIN valid_latest_runs AS r USING (run_id)
WHERE g.grain = 'turn'
GROUP BY ALL
ORDER BY arm, concurrency, g.turn""",
    ),
    "Time per token by length of context": Query(
        """-- context_tokens is in steps: the smallest power of two, from 256 on, that the prompt does not exceed
SELECT arm, context_tokens, concurrency, median(tpot_ms) AS tpot_ms, count(*) AS requests
FROM requests
WHERE is_completed AND context_tokens IS NOT NULL
GROUP BY ALL
ORDER BY arm, context_tokens, concurrency""",
        ChartSpec("line", "context_tokens", "tpot_ms", "arm"),
    ),
    "Your runs beside imported and published ones": Query(
        """-- measured here, imported from files of other tools, and published
SELECT origin, coalesce(hardware, 'unknown hardware') AS hardware, study_name, arm, concurrency, output_tok_per_s
FROM valid_latest_runs
WHERE output_tok_per_s IS NOT NULL
ORDER BY concurrency, output_tok_per_s""",
        ChartSpec("point", "concurrency", "output_tok_per_s", "origin"),
    ),
    "Invalid runs, and why": Query(
        """SELECT study_name, arm, concurrency, severity, check_name, sentence, run_id
FROM findings JOIN results USING (run_id)
WHERE severity = 'invalid'
ORDER BY study_name, run_id""",
    ),
    "Failed runs with their error messages": Query(
        """SELECT started_at, study_name, arm, concurrency, error
FROM results
WHERE origin = 'measured' AND status <> 'completed'
ORDER BY started_at DESC""",
    ),
    "Every column of a view": Query("DESCRIBE results"),
}


def load() -> str | None:
    """Fill the editor from the link, the last edit, or the first example. Returns the link's id if nothing is saved
    under it.
    """
    requested, shown = st.query_params.get(QUERY), st.session_state.get(_VIEW_ID)
    if requested is None and shown is not None:  # back from another page, which cleared the URL
        requested = st.query_params[QUERY] = shown
    if TEXT in st.session_state and requested == shown:
        return None
    query = None if requested is None else saved(requested)
    if query is not None and requested is not None:
        saved_views.note_opened(published_data.engine(), requested)
        _fill(query)
        st.session_state[_VIEW_ID] = requested
    elif TEXT not in st.session_state:
        _fill(next(iter(EXAMPLES.values())))
    return requested if query is None else None


def current() -> Query:
    sql = st.session_state[TEXT]
    given = tuple((name, st.session_state.get(parameter_key(name)) or "") for name in parameters_of(sql))
    return Query(sql, st.session_state[_CHART], given)


def parameter_key(name: str) -> str:
    return f"sql-parameter-{name}"


def save(query: Query) -> str:
    """Save the query; the same query always gets the same id. Raises UserError if it is not stored."""
    chart = None if query.chart is None else asdict(query.chart)
    state: dict[str, object] = {"sql": query.sql, "drawn": chart}
    state |= {"given": dict(query.given)} if query.given else {}  # so that others keep their ids
    return saved_views.save(published_data.engine(), PAGE, state, actor=visitor.actor())


def saved(view_id: str) -> Query | None:
    state = saved_views.load(published_data.engine(), PAGE, view_id)
    if state is None:
        return None
    chart = None if state["drawn"] is None else ChartSpec(**state["drawn"])
    return Query(state["sql"], chart, tuple(state.get("given", {}).items()))


def update_link() -> None:
    """Save the current query and put its id into the URL."""
    st.session_state[_VIEW_ID] = st.query_params[QUERY] = save(current())


def show(query: Query) -> None:
    """Put the query into the editor and the URL."""
    _fill(query)
    update_link()


def remember(query: Query) -> None:
    """Put the query at the head of this browser session's history, in place of one with the same SQL."""
    older = [earlier for earlier in history() if earlier.sql != query.sql]
    st.session_state[_HISTORY] = [query, *older][:_MAX_HISTORY]


def history() -> list[Query]:
    """Return the queries run in this browser session, newest first."""
    queries: list[Query] = st.session_state.get(_HISTORY, [])
    return queries


def set_chart(chart: ChartSpec | None) -> None:
    st.session_state[_CHART] = chart
    update_link()


def _fill(query: Query) -> None:
    st.session_state[TEXT], st.session_state[_CHART] = query.sql, query.chart
    for name, value in query.given:
        st.session_state[parameter_key(name)] = value
