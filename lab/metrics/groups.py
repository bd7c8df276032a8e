"""Numbers of a run's requests by turn and by length of context: what a mean over a whole session hides.

A context is the prompt as the server counted it, all earlier turns included. Long sessions have many turns and lengths,
so both are put into steps: turns from 9 on and contexts from 256 tokens on in powers of two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from lab.metrics.catalogue import LATENCIES
from lab.metrics.definition import Value
from lab.metrics.record_table import Floats, Mask
from lab.metrics.records import RunRecord
from lab.metrics.request_table import RequestTable
from lab.metrics.run_data import statistics_ms, whole_sum
from lab.study.workload import NO_TEXT

#: Turns up to this one are told apart.
_EACH_TURN = 8
#: The shortest step of contexts, in tokens.
_SHORTEST = 256
_LATENCIES = tuple(LATENCIES[name] for name in ("ttft", "tpot", "e2e"))


def context_steps(requests: RequestTable) -> Floats:
    """Return the step of each request's context: the smallest power of two, from 256 on, that it does not exceed."""
    tokens = requests.numbers("prompt_tokens")
    steps: Floats = np.exp2(np.ceil(np.log2(np.maximum(tokens, _SHORTEST))))
    return steps


def turn_steps(requests: RequestTable) -> Floats:
    """Return each request's turn up to 8, then the first of its step: 9 (to 16), 17 (to 32) and so on."""
    turns = requests.numbers("turn")
    with np.errstate(invalid="ignore"):
        steps: Floats = np.where(turns <= _EACH_TURN, turns, np.exp2(np.ceil(np.log2(turns)) - 1) + 1)
    return steps


def groups(run: RunRecord, requests: RequestTable) -> list[dict[str, Value | str]]:
    """Return the numbers of a completed run by turn, by context and by both; requests of unknown steps are left out."""
    if run.status != "completed":
        return []
    completed = requests.completed
    turn, context = turn_steps(completed), context_steps(completed)
    return [
        {"grain": grain, "turn": at_turn, "context_tokens": at_context, **_numbers(completed.where(chosen))}
        for grain, of_turn, of_context in (
            ("turn", turn, None),
            ("context", None, context),
            ("turn and context", turn, context),
        )
        for at_turn, at_context, chosen in _steps(of_turn, of_context, len(completed))
    ]


def _steps(turn: Floats | None, context: Floats | None, count: int) -> Iterator[tuple[int | None, int | None, Mask]]:
    known = np.ones(count, dtype=np.bool_)
    for steps in (turn, context):
        known &= True if steps is None else ~np.isnan(steps)
    for at_turn in [None] if turn is None else np.unique(turn[known]).tolist():
        here = known if turn is None else known & (turn == at_turn)
        for at_context in [None] if context is None else np.unique(context[here]).tolist():
            chosen = here if context is None else here & (context == at_context)
            yield _whole(at_turn), _whole(at_context), chosen


def _whole(step: float | None) -> int | None:
    return None if step is None else int(step)


def _numbers(requests: RequestTable) -> Mapping[str, Value]:
    read = whole_sum(requests.numbers("prompt_tokens"))
    values: dict[str, Value] = {
        "requests": len(requests),
        "completion_tokens": whole_sum(requests.numbers("completion_tokens")),
        "prompt_tokens_mean": None if read is None else read / len(requests),
    }
    for latency in _LATENCIES:
        values |= statistics_ms(latency.name, latency.samples_ms(requests))
    return values | _acceptance(requests)


def _acceptance(requests: RequestTable) -> dict[str, Value]:
    """Return the acceptance of requests whose rounds are known; it is unknown where a trace had no text."""
    told = requests.where(requests.known("spec_drafts") & requests.known("spec_accepted_tokens"))
    rounds, drafted, accepted = (
        whole_sum(told.numbers(name)) for name in ("spec_drafts", "spec_draft_tokens", "spec_accepted_tokens")
    )
    if requests.equals("category", NO_TEXT).any():
        accepted = None
    return {
        "num_drafts": rounds,
        "num_draft_tokens": drafted,
        "num_accepted_tokens": accepted,
        "acceptance_rate": accepted / drafted if accepted is not None and drafted else None,
        "acceptance_length": 1 + accepted / rounds if accepted is not None and rounds else None,
    }
