"""What others published, as pages and the command line ask for it, on a connection of `open_warehouse`."""

from __future__ import annotations

import duckdb
import pandas as pd

from lab.errors import QueryError
from warehouse.queries import frame


def sources(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """source, date, title, method, preset, figures (how many), runs (of them in results), doubts; oldest first."""
    return frame(
        con,
        """
        SELECT s.*,
            (SELECT count(*) FROM published_results AS r WHERE r.source = s.source) AS figures,
            (SELECT count(DISTINCT run_id) FROM published_results AS r WHERE r.source = s.source) AS runs,
            (SELECT count(*) FROM published_doubts AS d WHERE d.source = s.source) AS doubts
        FROM published_sources AS s ORDER BY date, source
        """,
    )


def figures(con: duckdb.DuckDBPyConnection, source: str | None = None) -> pd.DataFrame:
    """All columns of `published_results`, and doubts: the sentences of what does not fit; in the order of the sources.

    Raises QueryError for a source that there is not.
    """
    names = [name for (name,) in con.execute("SELECT source FROM published_sources ORDER BY source").fetchall()]
    if source is not None and source not in names:
        raise QueryError(f"nobody named {source!r} is among the published sources: there are {', '.join(names)}")
    return frame(
        con,
        """
        SELECT r.*, (SELECT coalesce(list(sentence ORDER BY sentence), []) FROM published_doubts AS d
            WHERE list_contains(d.numbers, r.number)) AS doubts
        FROM published_results AS r WHERE $1 IS NULL OR source = $1 ORDER BY number
        """,
        [source],
    )


def doubts(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """All columns of `published_doubts`."""
    return frame(con, "SELECT * FROM published_doubts ORDER BY source, check_name, sentence")
