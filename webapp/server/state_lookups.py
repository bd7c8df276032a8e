"""Looks up one value of a session's state without a copy of all of them.

The work-around `state_lookups`: to see whether a field was emptied, Streamlit collects every value of the session at
each field that it draws, so the time that a form takes grows with the square of its fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from streamlit.runtime.state.safe_session_state import SafeSessionState

_NAME = "filtered_state"


class Values(Mapping[str, Any]):
    """What `filtered_state` has, read when it is asked for."""

    def __init__(self, state: SafeSessionState) -> None:
        self._lock, self._state = state._lock, state._state  # noqa: SLF001 - as the property that it replaces

    def __getitem__(self, key: str) -> Any:
        with self._lock:
            return self._state[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return repr(self._all())

    def _all(self) -> dict[str, Any]:
        with self._lock:
            return self._state.filtered_state


def look_up_singly() -> None:
    """In all sessions."""
    if not hasattr(SafeSessionState, _NAME):
        raise AttributeError(f"{SafeSessionState.__name__} has no {_NAME}: turn state_lookups off in web_workarounds")
    setattr(SafeSessionState, _NAME, property(Values))
