"""Checks that tokens were counted correctly: usage against counters, chunks against tokens, parts against sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.metrics.latency import e2e_ms
from lab.metrics.record_table import Mask
from lab.metrics.records import ServerCounters
from lab.metrics.request_table import RequestTable
from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.evidence import Evidence
from lab.validity.words import listed, of_requests, percent

#: How far the server's counters and the sum of usage may differ, beside a slack of one token per request.
COUNTERS_APART = 0.02
#: From this many tokens per chunk on, a chunk is clearly not a token.
TOKENS_A_CHUNK = 1.2
#: An answer came at once if its tokens came faster than this and it has more of them than this many rounds give.
AT_ONCE_TOK_PER_S, ROUNDS_AT_ONCE = 20_000, 2
AT_ONCE_REQUESTS = 0.1
#: By how much the total time of requests may exceed the time of all streams.
STREAMS_SLACK = 0.01


def _apart(evidence: Evidence, counter: str, metric: str, tokens: str) -> Answer:
    counted, used = evidence.grown(counter), evidence.number(metric)
    if counted is None:
        return Missing(f"the server's own counter of {tokens}")
    if used is None:
        return Missing(f"the {tokens} of every request")
    if evidence.some_failed:
        return Missing(f"the {tokens} of the requests that failed")
    if abs(counted - used) <= max(COUNTERS_APART * used, len(evidence.completed)):
        return None
    why = "somebody else used the server, or usage omits tokens" if counted > used else "usage counts too many"
    return Fired(
        f"The server counted {counted:.0f} {tokens} in the window, the usage of its answers adds up to {used:.0f}: "
        f"{why}."
    )


def _token_ids(evidence: Evidence) -> Answer:
    ids, tokens = evidence.completed.lists("output_token_ids"), evidence.completed.numbers("completion_tokens")
    apart = np.flatnonzero(ids.known & (ids.lengths != tokens))
    if not apart.size:
        return None
    counted = tokens[apart[0]]
    return Fired(
        f"{of_requests(apart.size, int(ids.known.sum()))} returned another number of token ids than their usage "
        f"counts: {ids.lengths[apart[0]]} and {'none' if np.isnan(counted) else f'{counted:.0f}'} in the first of them."
    )


def _several_tokens(evidence: Evidence) -> Answer:
    chunks, tokens = evidence.completed.lists("chunk_s").values.size, evidence.number("completion_tokens")
    if tokens is None:
        return Missing("the tokens of every request") if len(evidence.completed) else None
    if not chunks or tokens / chunks < TOKENS_A_CHUNK:
        return None
    return Fired(
        f"A chunk carries {tokens / chunks:.3g} tokens on average, so the gap between chunks (ICL) is the time of a "
        "step, not a token latency."
    )


def _at_once(evidence: Evidence) -> Answer:
    long = are_long(evidence)
    whole = np.flatnonzero(long & came_at_once(evidence.completed))
    if whole.size - _read_late(evidence, whole) <= AT_ONCE_REQUESTS * long.sum():
        return None
    tokens = evidence.completed.numbers("completion_tokens")[whole[0]]
    return Fired(
        f"{of_requests(whole.size, int(long.sum()))} got a long answer all at once, {tokens:.0f} tokens in the first "
        "of them: the server does not stream, so TTFT is the whole time and TPOT is meaningless."
    )


def _read_late(evidence: Evidence, answers: NDArray[np.intp]) -> int:
    """Return how many of the answers may have waited for the client: what arrives while it stands still is read at
    once. Its longest pause holds up one answer of each stream, if that took no longer.
    """
    longest_ms = evidence.run.client.loop_lag_max_ms if evidence.run.client else 0.0
    short = int((e2e_ms(evidence.completed)[answers] <= longest_ms).sum())
    return min(short, evidence.run.load.max_concurrency)


def are_long(evidence: Evidence) -> Mask:
    """Return which completed answers are longer than a few rounds of speculation can give."""
    long: Mask = evidence.completed.numbers("completion_tokens") > ROUNDS_AT_ONCE * (1 + evidence.drafted_a_round)
    return long


def came_at_once(requests: RequestTable) -> Mask:
    """Return which answers got the tokens after their first chunk faster than any model can generate."""
    chunks = requests.lists("chunk_s")
    at_once: Mask = AT_ONCE_TOK_PER_S * (chunks.lasts - chunks.firsts) < requests.numbers("completion_tokens") - 1
    return at_once


def _counter_reset(evidence: Evidence) -> Answer:
    before, after = evidence.run.counters_before, evidence.run.counters_after
    if before is None or after is None or {before, after} == {ServerCounters()}:
        return Missing("the server's counters before and after the window")
    fell = [name for name, value in before if _fell(value, getattr(after, name))]
    if not fell:
        return None
    return Fired(
        f"The server's counters fell during the run ({listed(fell)}): it was restarted, or several servers answer in "
        "turn."
    )


def _fell(before: object, after: object) -> bool:
    if isinstance(before, tuple) and isinstance(after, tuple):
        return any(_fell(*pair) for pair in zip(before, after, strict=False))
    return isinstance(before, float) and isinstance(after, float) and after < before


def _contradiction(evidence: Evidence) -> Answer:
    window_s, streams = evidence.window_s, evidence.run.load.max_concurrency
    backwards = int(_run_backwards(evidence.sent).sum())
    if backwards:
        return Fired(f"The times of {of_requests(backwards, len(evidence.sent))} run backwards.")
    if window_s is None:
        return Missing("how long the window lasted")
    busy_s = float(np.nansum(e2e_ms(evidence.sent) / 1000))
    if busy_s <= streams * window_s * (1 + STREAMS_SLACK):
        return None
    return Fired(
        f"The requests took {busy_s:.3g} s together, but {streams} streams have only {streams * window_s:.3g} s in a "
        f"window of {window_s:.3g} s."
    )


def _run_backwards(sent: RequestTable) -> Mask:
    """Return which requests' send, first token, chunks and end, as far as known, are not in this order."""
    chunks, first_s, sent_s = sent.lists("chunk_s"), sent.numbers("first_token_s"), sent.numbers("sent_s")
    begun_s = np.where(np.isnan(first_s), sent_s, first_s)
    last_s = np.where(np.isnan(chunks.lasts), begun_s, chunks.lasts)
    backwards: Mask = (first_s < sent_s) | (chunks.firsts < begun_s) | (sent.numbers("end_s") < last_s)
    is_earlier = (chunks.values[1:] < chunks.values[:-1]) & chunks.follows
    backwards[chunks.owners_of(np.flatnonzero(is_earlier) + 1)] = True
    return backwards


_USAGE = "completion_tokens"
CHECKS = (
    Check(
        name="server_token_count",
        traps=(8, 10),
        severity="invalid",
        looks_at=("counters_before", "counters_after", _USAGE),
        threshold=f"usage and the server's counter differ by more than {percent(COUNTERS_APART)} and by more than "
        "one token per request; skipped if requests failed",
        why="Apart from the end token they agree, unless usage is wrong or somebody else used the server.",
        advice="Measure on a server that nobody else uses. If nobody did, do not trust its usage.",
        rule=lambda evidence: _apart(evidence, "generation_tokens", "completion_tokens", "generated tokens"),
    ),
    Check(
        name="server_prompt_count",
        traps=(8, 10, 19),
        severity="warning",
        looks_at=("counters_before", "counters_after", "prompt_tokens"),
        threshold=f"as server_token_count: more than {percent(COUNTERS_APART)} and one token per request",
        why="Somebody else sent prompts, or the server changed them. Output throughput is not affected.",
        advice="Measure on a server that nobody else uses, and check whether it shortens or pads prompts.",
        rule=lambda evidence: _apart(evidence, "prompt_tokens", "prompt_tokens", "prompt tokens"),
    ),
    Check(
        name="counters_unread",
        traps=(8, 10),
        severity="note",
        looks_at=("counters_problem",),
        threshold="any run whose server publishes counters that could not be read before or after the window",
        why="Without them usage, other users, cache hits and, for some engines, acceptance cannot be checked.",
        advice="Find out why the metrics page does not answer while the server does, then repeat the run.",
        rule=lambda evidence: (
            Fired(f"The server's own counters are unknown: {evidence.run.counters_problem}")
            if evidence.run.counters_problem is not None
            else None
        ),
    ),
    Check(
        name="told_tokens_count",
        traps=(8,),
        severity="warning",
        looks_at=("output_token_ids", _USAGE),
        threshold="any request whose returned token ids are not as many as its usage counts",
        why="One of the two omits tokens. Figures use usage; such outputs are compared by text.",
        advice="See server_token_count, which has the server's own counter.",
        rule=_token_ids,
    ),
    Check(
        name="several_tokens_a_chunk",
        traps=(6, 7),
        severity="note",
        looks_at=("chunk_s", _USAGE),
        threshold=f"{TOKENS_A_CHUNK:g} tokens per chunk or more",
        why="Under speculation a chunk carries the tokens of a round. TPOT stays correct, because it comes from usage.",
        advice="Compare TPOT or ITL, never ICL or a peak rate that counts chunks.",
        rule=_several_tokens,
    ),
    Check(
        name="answers_at_once",
        traps=(6,),
        severity="invalid",
        looks_at=("chunk_s", _USAGE, "client.loop_lag_max_ms", "load.max_concurrency"),
        needs=("chunk_s", _USAGE),
        threshold=f"more than {percent(AT_ONCE_REQUESTS)} of the answers longer than {ROUNDS_AT_ONCE} rounds of 1 + "
        f"k tokens arrived at over {AT_ONCE_TOK_PER_S} tok/s once they began; without one of each stream if the client "
        "stood still for as long as it took",
        why="If a server or proxy holds an answer back until it is complete, there is no first token to time.",
        advice="Turn on streaming in the server, and turn off buffering in any proxy.",
        rule=_at_once,
    ),
    Check(
        name="counter_reset",
        traps=(10,),
        severity="invalid",
        looks_at=("counters_before", "counters_after"),
        threshold="any counter smaller after a window than before it, or smaller before a later window of the run",
        why="A server that restarted during the run was measured cold, and counter differences mean nothing.",
        advice="Find the reason for the restart in the server's log, then repeat the run. Of several servers behind "
        "one address, measure one by an address of its own.",
        rule=_counter_reset,
    ),
    Check(
        name="figures_contradict",
        traps=(26,),
        severity="invalid",
        looks_at=("sent_s", "first_token_s", "chunk_s", "end_s", "duration_s", "load.max_concurrency"),
        threshold="a request that ends before it began, or requests that together took more than "
        f"{percent(1 + STREAMS_SLACK)} of streams x window",
        why="Figures that break Little's law come from several clocks or several runs.",
        advice="Repeat the run. If it was imported, look for what was mixed up in the file.",
        rule=_contradiction,
    ),
)
