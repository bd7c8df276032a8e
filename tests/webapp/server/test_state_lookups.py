"""A session's values are the same, however they are looked up."""

from __future__ import annotations

import pytest
import streamlit as st
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.testing.v1 import AppTest

from webapp.server import state_lookups
from webapp.server.state_lookups import Values


def form() -> None:
    st.text_input("Name", "demo", key="name")
    st.number_input("Repeats", 1, key="repeats")
    st.number_input("Prompts", 1, 8, 4)
    st.selectbox("Engine", ["vllm", "transformers"], key="engine")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The form with a field that was emptied before, and with a value that is no field's."""
    monkeypatch.setattr(SafeSessionState, "filtered_state", SafeSessionState.filtered_state)
    state_lookups.look_up_singly()
    app = AppTest.from_function(_form)
    app.session_state["repeats"] = None
    app.session_state["receipt"] = 3
    return app.run()


def _form() -> None:
    from tests.webapp.server.test_state_lookups import form  # noqa: PLC0415 - the script is this function's body

    form()


def test_a_field_that_was_emptied_stays_empty_and_the_others_have_their_own_values(seen: AppTest) -> None:
    assert [field.value for field in seen.number_input] == [None, 4]
    assert (seen.text_input[0].value, seen.selectbox[0].value) == ("demo", "vllm")


def test_every_value_is_what_streamlit_has_of_it(seen: AppTest) -> None:
    state = seen.session_state._state
    everything = dict(state._state.filtered_state)
    assert everything == {"name": "demo", "repeats": None, "engine": "vllm", "receipt": 3}
    values = Values(state)
    assert (dict(values), len(values), repr(values)) == (everything, 4, repr(everything))
    assert "nothing" not in values
    with pytest.raises(KeyError):
        values["nothing"]


def test_it_says_how_to_go_on_without_it_where_streamlit_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(SafeSessionState, "filtered_state")
    with pytest.raises(AttributeError, match="turn state_lookups off in web_workarounds"):
        state_lookups.look_up_singly()
