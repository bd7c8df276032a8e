"""What the Home page reads from the warehouse."""

from __future__ import annotations

from contextlib import closing

import pandas as pd
import streamlit as st

from warehouse.database import open_warehouse
from warehouse.queries.headlines import Headline
from warehouse.queries.headlines import headlines as asked
from webapp.shared import published_data


def headlines() -> list[Headline]:
    """One of each target, the newest first; none before the first publication."""
    published = published_data.publication()
    return [] if published is None else _headlines(published)


def studies() -> pd.DataFrame:
    """As `data.studies_with_results`; empty before the first publication."""
    return pd.DataFrame() if published_data.publication() is None else published_data.studies_with_results()


@st.cache_resource(show_spinner=False, max_entries=1)
def _headlines(publication: published_data.Publication) -> list[Headline]:
    del publication
    with closing(open_warehouse(published_data.settings())) as connection:
        return asked(connection)
