"""How long sessions are: the requests that a workload sends for each of its prompts, and the waits between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.study.workload import Workload

#: Turns of a session whose dataset is not known here.
ASSUMED_TURNS = 3


@dataclass(frozen=True)
class SessionLength:
    """Means over the sessions of a workload; a workload without sessions sends one request for each prompt."""

    turns: float = 1.0
    waits_s: float = 0.0  # of a whole session, while nothing of it is in flight


def session_length(
    workload: Workload, recorded_turns: Mapping[int, int] | None = None, recorded_wait_s: float = 0.0
) -> SessionLength:
    """Return how long the sessions of a workload are.

    `recorded_turns`: the number of the dataset's conversations by their number of turns; None or empty where that is
    unknown. `recorded_wait_s`: the mean wait before a later turn, as the dataset records it.
    """
    sessions = workload.sessions
    if sessions is None:
        return SessionLength()
    most = sessions.max_turns
    known = recorded_turns or {ASSUMED_TURNS: 1}
    total = sum(count * (turns if most is None else min(turns, most)) for turns, count in known.items())
    turns = total / sum(known.values())
    wait_s = {"recorded": recorded_wait_s, "none": 0.0}.get(sessions.think, sessions.think_s or 0.0)
    return SessionLength(turns, (turns - 1) * wait_s)
