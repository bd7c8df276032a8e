"""What a visitor does reaches its callback, whatever an older or a newer run of the page does meanwhile."""

from __future__ import annotations

import contextvars
from collections.abc import Callable

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.runtime import state as runtime_state
from streamlit.runtime.scriptrunner import StopException, script_runner
from streamlit.runtime.scriptrunner_utils.script_run_context import ThreadState
from streamlit.runtime.state.common import WidgetMetadata

from webapp.server import session_turns
from webapp.server.session_turns import SharedState, TurnState

BUTTON, FIELD = "$$ID-button", "$$ID-field"


def stopped() -> None:
    raise StopException


def session(on_click: Callable[[], None]) -> SharedState:
    """With a button and a field that were drawn before."""
    state = SharedState()
    widgets = state._new_widget_state  # what registering them in a script fills
    widgets.set_widget_metadata(
        WidgetMetadata(id=BUTTON, deserializer=bool, serializer=bool, value_type="trigger_value", callback=on_click)
    )
    widgets.set_widget_metadata(WidgetMetadata(id=FIELD, deserializer=str, serializer=str, value_type="string_value"))
    return state


def sent(*, text: str, clicked: bool = False) -> WidgetStates:
    """What the browser sends."""
    states = WidgetStates()
    states.widgets.add(id=FIELD, string_value=text)
    if clicked:
        states.widgets.add(id=BUTTON, trigger_value=True)
    return states


def begin(runner: TurnState, states: WidgetStates) -> None:
    """As at the beginning of a run, in a context of its own."""

    def will_rerun() -> None:
        ThreadState.initialize()
        runner.on_script_will_rerun(states)

    contextvars.copy_context().run(will_rerun)


def test_a_click_reaches_its_callback_although_a_newer_run_waits() -> None:
    clicks: list[str] = []
    state = session(lambda: clicks.append(runner["text"]))
    runner = TurnState(state, stopped)
    state["text"] = "typed"
    begin(runner, sent(text="typed", clicked=True))
    assert clicks == ["typed"]
    with pytest.raises(StopException):  # after its callbacks it ends
        runner["text"]


def test_a_replaced_run_keeps_clicks_and_drops_no_unread_state() -> None:
    state = session(lambda: None)
    older, newer = TurnState(state, lambda: None), TurnState(state, lambda: None)
    begin(older, sent(text="a"))
    begin(newer, sent(text="ab", clicked=True))
    older.on_script_finished(frozenset())
    assert (newer[BUTTON], newer[FIELD]) == (True, "ab")
    newer.on_script_finished(frozenset({BUTTON, FIELD}))
    assert (newer[BUTTON], newer[FIELD]) == (False, "ab")


def test_widgets_stay_while_a_newer_run_is_about_to_set_them() -> None:
    state = session(lambda: None)
    older = TurnState(state, lambda: None)
    begin(older, sent(text="typed"))
    TurnState(state, lambda: None)
    older.on_script_finished(frozenset())
    assert older[FIELD] == "typed"


def test_a_run_that_comes_after_a_newer_one_ends_and_changes_nothing() -> None:
    state = session(lambda: None)
    older, newer = TurnState(state, stopped), TurnState(state, lambda: None)
    begin(newer, sent(text="new"))
    with pytest.raises(StopException):
        begin(older, sent(text="old"))
    assert newer[FIELD] == "new"


def test_sessions_and_runners_of_streamlit_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_state, "SessionState", runtime_state.SessionState)
    monkeypatch.setattr(script_runner, "SafeSessionState", vars(script_runner)["SafeSessionState"])
    session_turns.take_turns()
    assert (vars(runtime_state)["SessionState"], vars(script_runner)["SafeSessionState"]) == (SharedState, TurnState)
