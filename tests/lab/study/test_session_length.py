"""How many requests a session is and how long it waits, from what the study says and what the dataset records."""

from __future__ import annotations

from typing import Any

import pytest

from lab.study import Sessions, Workload
from lab.study.session_length import ASSUMED_TURNS, SessionLength, session_length

#: One conversation of 2 turns and three of 6: 5 turns in the mean, 3.5 if none is longer than 4.
RECORDED = {2: 1, 6: 3}


def length(**sessions: Any) -> SessionLength:
    return session_length(Workload(sessions=Sessions(**sessions)), RECORDED, 1.5)


@pytest.mark.parametrize(
    ("sessions", "expected"),
    [
        ({}, SessionLength(5.0, 4 * 1.5)),
        ({"max_turns": 4}, SessionLength(3.5, 2.5 * 1.5)),
        ({"think": "none"}, SessionLength(5.0, 0.0)),
        ({"think": "fixed", "think_s": 3}, SessionLength(5.0, 12.0)),
        ({"think": "exponential", "think_s": 2}, SessionLength(5.0, 8.0)),
    ],
)
def test_turns_and_waits_are_means_over_the_datasets_conversations(
    sessions: dict[str, Any], expected: SessionLength
) -> None:
    assert length(**sessions) == expected


def test_without_the_dataset_a_few_turns_are_assumed_and_no_recorded_waits() -> None:
    assert session_length(Workload(sessions=Sessions())) == SessionLength(ASSUMED_TURNS, 0.0)
    assert session_length(Workload(sessions=Sessions(max_turns=2, think="fixed", think_s=5))) == SessionLength(2, 5.0)


def test_a_workload_without_sessions_sends_one_request_for_each_prompt() -> None:
    assert session_length(Workload(), RECORDED, 1.5) == SessionLength(1.0, 0.0)
