"""Lets the runs of one visitor's pages take turns with the session's state.

The work-around `session_turns`: Streamlit stops a run that a newer one replaces, but the stopped thread goes on to its
next yield point, and ends by resetting buttons and dropping widgets in the state that the newer run has already set. On
a busy machine clicks and texts were lost in this way: the callback of a click right after a text was never called.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.runtime import state as runtime_state
from streamlit.runtime.scriptrunner import script_runner
from streamlit.runtime.state.safe_session_state import SafeSessionState
from streamlit.runtime.state.session_state import SessionState


class SharedState(SessionState):
    """A session's state, with what its runners share."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.RLock()
        #: How many runners there were; which of them was the last to set the widgets.
        self.runners, self.last_set = 0, 0


class TurnState(SafeSessionState):
    """One runner's access to the shared state. Runners are numbered in the order of the visitor's actions."""

    _state: SharedState
    _number: int
    _interrupt: Callable[[], None]
    _is_setting: bool

    def __init__(self, state: SharedState, yield_callback: Callable[[], None]) -> None:
        super().__init__(state, self._yield)
        with state.lock:
            state.runners += 1
            number = state.runners
        own = {"_lock": state.lock, "_number": number, "_interrupt": yield_callback, "_is_setting": False}
        for name, value in own.items():  # a plain assignment would become an entry of the state
            object.__setattr__(self, name, value)

    def _yield(self) -> None:
        if not self._is_setting:
            self._interrupt()

    def on_script_will_rerun(
        self,
        fresh_widget_states: WidgetStates | None,
        *,
        replay_trigger_states: WidgetStates | None = None,
        replay_trigger_values: Mapping[str, Any] | None = None,
        is_history_navigation: bool = False,
    ) -> None:
        """Set the widgets and finish their callbacks, even if a newer run waits. A stopped run that comes after a newer
        one ends here.
        """
        with self._lock:
            if self._state.last_set > self._number:
                self._interrupt()
            self._state.last_set = max(self._state.last_set, self._number)
            object.__setattr__(self, "_is_setting", True)
            try:
                super().on_script_will_rerun(
                    fresh_widget_states,
                    replay_trigger_states=replay_trigger_states,
                    replay_trigger_values=replay_trigger_values,
                    is_history_navigation=is_history_navigation,
                )
            finally:
                object.__setattr__(self, "_is_setting", False)

    def on_script_finished(self, widget_ids_this_run: frozenset[str], *, remove_stale_widgets: bool = True) -> None:
        """Leave the state to the newer run if this one was replaced: it has drawn only some of the widgets."""
        with self._lock:
            if self._state.last_set <= self._number:
                is_newest = self._state.runners == self._number
                super().on_script_finished(widget_ids_this_run, remove_stale_widgets=remove_stale_widgets and is_newest)


def take_turns() -> None:
    """Use shared states for all sessions that begin from now on."""
    for module, name, ours in (
        (runtime_state, "SessionState", SharedState),
        (script_runner, "SafeSessionState", TurnState),
    ):
        if not hasattr(module, name):
            raise AttributeError(f"{module.__name__} has no {name}: turn session_turns off in web_workarounds")
        setattr(module, name, ours)
