"""What one visitor does to a table that is kept, another does not see."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from webapp.shared.cached_frames import kept_frame


def test_each_caller_has_a_table_of_its_own_and_it_is_asked_for_once() -> None:
    asked = []

    @kept_frame(4)
    def frame(of: str) -> pd.DataFrame:
        asked.append(of)
        return pd.DataFrame({"value": [1, 2]})

    try:
        first = frame("a")
        first.loc[0, "value"] = 7
        first["more"] = 0
        assert frame("a").to_dict("list") == {"value": [1, 2]}
        assert frame("b").to_dict("list") == {"value": [1, 2]}
    finally:
        st.cache_resource.clear()
    assert asked == ["a", "b"]
