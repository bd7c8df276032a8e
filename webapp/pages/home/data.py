"""What the Home page reads from the warehouse."""

from __future__ import annotations

import pandas as pd

from warehouse.queries import headlines as queries
from warehouse.queries.headlines import Headline
from webapp.shared import published_data

_headlines = published_data.published_query(1)(queries.headlines)


def headlines() -> list[Headline]:
    """One of each target, the newest first; none before the first publication."""
    return [] if published_data.publication() is None else _headlines()


def studies() -> pd.DataFrame:
    """As `published_data.studies_with_results`, but empty before the first publication."""
    return pd.DataFrame() if published_data.publication() is None else published_data.studies_with_results()
