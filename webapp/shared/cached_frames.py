"""Tables kept for all visitors: Streamlit's own cache for data unpickles a table for each look at it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import pandas as pd
import streamlit as st

P = ParamSpec("P")


def kept_frame(most_kept: int) -> Callable[[Callable[P, pd.DataFrame]], Callable[P, pd.DataFrame]]:
    """The newest `most_kept` answers. Each caller has a table of its own, which shares the values until it changes them
    (pandas' copy-on-write); an argument whose name begins with `_` is no part of the question.
    """

    def keeping(ask: Callable[P, pd.DataFrame]) -> Callable[P, pd.DataFrame]:
        kept = st.cache_resource(show_spinner=False, max_entries=most_kept)(ask)

        @wraps(ask)
        def asked(*arguments: P.args, **named: P.kwargs) -> pd.DataFrame:
            return kept(*arguments, **named).copy(deep=False)

        return asked

    return keeping
