"""Checks that events come when their tokens are made, and that the server works on all requests it has.

Bounds are in steps of the run itself (the usual gap between events), so that they hold on any hardware.
"""

from __future__ import annotations

import numpy as np

from lab.metrics.latency import e2e_ms, tpot_ms, ttft_ms
from lab.metrics.record_table import Floats, Mask
from lab.metrics.request_table import RequestTable
from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.evidence import Evidence
from lab.validity.words import ms, of_requests, percent

#: Answers with fewer events than this show no usual gap; with fewer answers than that, no usual answer.
LEAST_EVENTS, LEAST_ANSWERS = 4, 8
#: Events this close to the first, as a share of TPOT, came with it; and how much too low TPOT may then be.
WITH_THE_FIRST, TPOT_TOO_LOW = 0.2, 0.05
#: Gaps below this share of the mean one are none, and from this share of such gaps on events come in bursts.
NO_GAP, IN_BURSTS = 0.1, 0.5
#: In steps: the first event is earlier than a step can be, and the second later than the next step is.
EARLY_STEPS, LATE_STEPS = 0.5, 2.0
#: A pause of an answer, in usual gaps and at least; the share of answers beyond which it is the server's own way; and
#: the share of all streams' time from which on it matters.
PAUSE_GAPS, PAUSE_S, FEW_ANSWERS, TIME_LOST = 20.0, 0.2, 0.25, 0.05
#: A wait for the first token that counts as such a pause, in usual waits.
PAUSE_WAITS = 10.0
#: The share of streams that are answered at once, at most, and the share of the time in which it is that many; more at
#: once for a shorter time does not count, nor does time in which fewer than this share of streams had a request.
ANSWERED_SHARE, AT_THE_LIMIT, SELDOM, FULL_SHARE = 0.25, 0.8, 0.02, 0.75


def _streamed(evidence: Evidence) -> RequestTable:
    """Return the completed answers with enough events, whose tokens are known."""
    completed = evidence.completed
    enough = completed.lists("chunk_s").lengths >= LEAST_EVENTS
    return completed.where(enough & ~np.isnan(completed.numbers("completion_tokens")))


def _lag_ms(evidence: Evidence) -> float:
    """Return how late the client itself may have read an event: what it reads late seems to come together."""
    return evidence.run.client.loop_lag_p99_ms if evidence.run.client else 0.0


def _bursts(evidence: Evidence) -> Answer:
    answers = evidence.completed
    chunks, tokens = answers.lists("chunk_s"), answers.numbers("completion_tokens")
    several = (chunks.lengths > 1) & (chunks.lasts > chunks.firsts) & (tokens > 1)
    if several.sum() < LEAST_ANSWERS:
        return Missing(f"{LEAST_ANSWERS} answers of several events")
    answers = answers.where(several)
    chunks, tokens = answers.lists("chunk_s"), answers.numbers("completion_tokens")
    tpot = tpot_ms(answers)
    near = (chunks.values - chunks.firsts[chunks.owners]) * 1000 <= WITH_THE_FIRST * tpot[chunks.owners]
    first = np.bincount(chunks.owners, _tokens_of_events(answers) * near, minlength=len(answers))
    too_low = float(np.mean((first - 1) / (tokens - 1)))
    a_step, together = 1 + evidence.drafted_a_round, share_together(answers)
    comes_late = np.median(first) > a_step and too_low > TPOT_TOO_LOW
    if not comes_late and together < IN_BURSTS:
        return None
    if _lag_ms(evidence) > np.median(tpot):
        return Missing(_QUICK_CLIENT)
    if comes_late:
        others = tokens > first
        later_ms = float(np.median((tpot * (tokens - 1))[others] / (tokens - first)[others])) if others.any() else None
        truly = "" if later_ms is None else f"; over the tokens after them it is {ms(later_ms)}"
        return Fired(
            f"{np.median(first):.3g} tokens came with an answer's first event (median), where a step makes "
            f"{a_step} at most: TTFT waits for all of them, and TPOT, {ms(float(np.median(tpot)))}, counts no time "
            f"for them{truly}.",
            "warning",
        )
    return Fired(
        f"{percent(together)} of the events came together with the one before, about {1 / (1 - together):.2g} at once: "
        "the gaps between events (ICL, ITL) are those of writing, not of steps.",
        "note",
    )


_QUICK_CLIENT = "when events came: the client itself was later than a token takes"


def share_together(answers: RequestTable) -> float:
    """Return the share of events that came together with the one before."""
    gaps = answers.lists("chunk_s").gaps
    return float(np.mean(gaps < NO_GAP * gaps.mean()))


def _tokens_of_events(answers: RequestTable) -> Floats:
    """Return the tokens of every event; where the server does not count them, each of an answer has as many."""
    chunks, counted = answers.lists("chunk_s"), answers.lists("chunk_tokens")
    if counted.known.all() and np.array_equal(counted.bounds, chunks.bounds):
        return counted.values.astype(np.float64)
    return (answers.numbers("completion_tokens") / chunks.lengths)[chunks.owners]


def _early_first(evidence: Evidence) -> Answer:
    answers = _streamed(evidence)
    if len(answers) < LEAST_ANSWERS:
        return Missing(f"{LEAST_ANSWERS} answers of {LEAST_EVENTS} events")
    chunks, waits_ms = answers.lists("chunk_s"), ttft_ms(answers)
    second_s = chunks.values[chunks.bounds[:-1] + 1]
    steps_ms = 1000 * (chunks.lasts - second_s) / (chunks.lengths - 2)
    later_ms = 1000 * (second_s - chunks.firsts)
    wait_ms, step_ms, gap_ms = (float(np.nanmedian(times)) for times in (waits_ms, steps_ms, later_ms))
    if not wait_ms < EARLY_STEPS * step_ms or gap_ms <= LATE_STEPS * step_ms:
        return None
    return Fired(
        f"The first event of an answer came after {ms(wait_ms)}, sooner than a step of the model ({ms(step_ms)}), and "
        f"the second {ms(gap_ms)} later (medians): TTFT is not the time to a token of the model, which took about "
        f"{ms(wait_ms + gap_ms)}."
    )


def _pauses(evidence: Evidence) -> Answer:
    answers = _streamed(evidence)
    if len(answers) < LEAST_ANSWERS:
        return Missing(f"{LEAST_ANSWERS} answers of {LEAST_EVENTS} events")
    chunks = answers.lists("chunk_s")
    usual_s = float(np.median(chunks.gaps))
    begins_s = np.concatenate(([-np.inf], chunks.values[:-1]))
    gap_of = np.concatenate(([0.0], np.diff(chunks.values) * chunks.follows))
    gap_of *= begins_s >= _all_answered_s(evidence, answers)[chunks.owners]
    late_s = evidence.run.client.loop_lag_max_ms / 1000 if evidence.run.client else 0.0
    lost_s = _beyond(gap_of, usual_s, PAUSE_GAPS, late_s)
    lost_by_answer: Floats = np.bincount(chunks.owners, lost_s, minlength=len(answers)).astype(np.float64)
    if evidence.run.load.closed_loop:
        waits_s = _later_waits_s(evidence, answers)
        known_s = waits_s[~np.isnan(waits_s)]
        lost_by_answer = lost_by_answer + _beyond(
            waits_s, float(np.median(known_s)) if known_s.size else 0.0, PAUSE_WAITS, late_s
        )
    paused = int((lost_by_answer > 0).sum())
    lost_s_in_all, busy_s = float(lost_by_answer.sum()), float(np.nansum(e2e_ms(answers) / 1000))
    share = lost_s_in_all / busy_s if busy_s else 0.0
    if not paused or paused > FEW_ANSWERS * len(answers) or share <= TIME_LOST:
        return None
    speed, both = evidence.number("output_tok_per_s"), ""
    if speed is not None and evidence.run.load.closed_loop:
        tokens, streams = answers.numbers("completion_tokens").sum(), evidence.run.load.max_concurrency
        without = streams * tokens / (busy_s - lost_s_in_all)
        both = f" Throughput is {speed:.4g} tok/s with them, and about {without:.4g} without."
    return Fired(
        f"{of_requests(paused, len(answers))} stopped for up to {lost_by_answer.max():.3g} s, where the usual gap is "
        f"{ms(1000 * usual_s)}: these few pauses were {percent(share)} of the streams' time.{both}"
    )


def _all_answered_s(evidence: Evidence, answers: RequestTable) -> Floats:
    """Return for each answer when the requests that its window began with had their first tokens.

    Until then an engine that reads their prompts one after another keeps the first of their answers waiting.
    """
    completed, window = evidence.completed, _window(answers)
    together, first_token_s = _together(evidence, completed), completed.numbers("first_token_s")
    answered_s = np.full(len(answers), -np.inf)
    for number in np.unique(window):
        of_window = together & (_window(completed) == number)
        answered_s[window == number] = np.nanmax(first_token_s[of_window], initial=-np.inf)
    return answered_s


def _later_waits_s(evidence: Evidence, answers: RequestTable) -> Floats:
    """Return each TTFT in seconds; NaN of requests that are sent together (see slow_first_requests)."""
    return np.where(_together(evidence, answers), np.nan, ttft_ms(answers) / 1000)


def _together(evidence: Evidence, requests: RequestTable) -> Mask:
    """Return which of these requests a closed loop sent together, as a window began."""
    if not evidence.run.load.closed_loop:
        return np.zeros(len(requests), bool)
    numbers, window_of = np.unique(_window(evidence.requests), return_inverse=True)
    first = np.full(numbers.size, np.inf)
    np.minimum.at(first, window_of, evidence.requests.numbers("index"))
    place = requests.numbers("index") - first[np.searchsorted(numbers, _window(requests))]
    return np.asarray(place < evidence.run.load.max_concurrency, dtype=np.bool_)


def _window(requests: RequestTable) -> Floats:
    """Return the number of the window of each request; 0 of a run with one window."""
    return np.nan_to_num(requests.numbers("round"))


def _beyond(times_s: Floats, usual_s: float, many: float, late_s: float) -> Floats:
    """Return what each time exceeds the usual one by, where it is a pause and not the client's own lag; else 0."""
    return np.where(times_s >= max(many * usual_s, PAUSE_S, 2 * late_s), times_s - usual_s, 0.0)


def _not_served(evidence: Evidence) -> Answer:
    streams = evidence.run.load.max_concurrency
    if not evidence.run.load.closed_loop or int(ANSWERED_SHARE * streams) < 1:
        return None
    answers = evidence.completed
    times = [answers.numbers(name) for name in ("sent_s", "first_token_s", "end_s")]
    if len(answers) < 2 * streams or np.isnan(times).any():
        return Missing(f"the times of {2 * streams} requests")
    sent_s, first_s, end_s = map(np.sort, times)
    moments_s = np.unique(np.concatenate((sent_s, first_s, end_s)))
    middles_s, lengths_s = (moments_s[1:] + moments_s[:-1]) / 2, np.diff(moments_s)
    ended = np.searchsorted(end_s, middles_s)
    full = np.searchsorted(sent_s, middles_s) - ended >= FULL_SHARE * streams
    answered, lengths_s = (np.searchsorted(first_s, middles_s) - ended)[full], lengths_s[full]
    if not lengths_s.size:
        return Missing("time in which the streams were full")
    by_level = np.bincount(answered, lengths_s) / lengths_s.sum()
    at_least = np.cumsum(by_level[::-1])[::-1]
    most = int(np.flatnonzero(at_least > SELDOM)[-1])
    if not 1 <= most <= ANSWERED_SHARE * streams or by_level[most] < AT_THE_LIMIT:
        return None
    wait_ms, whole_ms = float(np.median(ttft_ms(answers))), float(np.median(e2e_ms(answers)))
    if whole_ms - wait_ms <= _lag_ms(evidence):
        return Missing(_QUICK_CLIENT)
    return Fired(
        f"While {streams} streams had requests, the server worked on {most} at a time in {percent(by_level[most])} of "
        f"the time: the others waited for it (median TTFT {ms(wait_ms)} of {ms(whole_ms)} in all)."
    )


CHECKS = (
    Check(
        name="events_in_bursts",
        traps=(6, 28),
        severity="warning",
        looks_at=("chunk_s", "chunk_tokens", "completion_tokens", "first_token_s"),
        needs=("chunk_s", "completion_tokens"),
        threshold=f"a warning if the first event and those within {percent(WITH_THE_FIRST)} of TPOT after it carry "
        "more tokens than a step can (1 + k, median), so that TPOT is too low by more than "
        f"{percent(TPOT_TOO_LOW)}; a note if {percent(IN_BURSTS)} of the events came together with the "
        f"one before (within {percent(NO_GAP)} of the mean gap)",
        why="Merging the events of eight steps lowered TPOT from 11.5 to 7.4 ms, and no token came sooner.",
        advice="Compare E2E and throughput, which are right. Make the server write every step (vLLM: stream-interval "
        "1), and look for a buffering proxy.",
        rule=_bursts,
    ),
    Check(
        name="early_first_event",
        traps=(28,),
        severity="warning",
        looks_at=("sent_s", "first_token_s", "chunk_s"),
        threshold=f"median TTFT below {EARLY_STEPS:g} of a step's time, and the second event more than {LATE_STEPS:g} "
        f"steps after the first; needs {LEAST_ANSWERS} answers of {LEAST_EVENTS} events",
        why="A server that sent a space first had a TTFT of 3 instead of 52 ms.",
        advice="Compare E2E, or measure the server without what writes before it.",
        rule=_early_first,
    ),
    Check(
        name="few_answers_paused",
        traps=(28,),
        severity="warning",
        looks_at=("sent_s", "chunk_s", "first_token_s", "end_s", "completion_tokens", "load"),
        threshold=f"at most {percent(FEW_ANSWERS)} of the answers paused (for {PAUSE_GAPS:g} usual gaps or, in a "
        f"closed loop after its first requests, a TTFT of {PAUSE_WAITS:g} usual ones, and {PAUSE_S:g} s), "
        f"which took more than {percent(TIME_LOST)} of all streams' time. The client's own lag and the "
        "reading of a closed loop's first prompts do not count",
        why="Three of 24 answers that stop for 1.5 s take a quarter of the throughput.",
        advice="Repeat the run. If the pauses stay, look for what they share (prompts, moments, log lines).",
        rule=_pauses,
    ),
    Check(
        name="streams_not_served",
        traps=(28,),
        severity="warning",
        looks_at=("sent_s", "first_token_s", "end_s", "load.max_concurrency"),
        threshold="in a closed loop with all streams full (four or more), the server answers at most "
        f"{percent(ANSWERED_SHARE)} of them at a time, and exactly that many for {percent(AT_THE_LIMIT)} of "
        "the time. Prompts that take about as long as their answers can look the same",
        why="A server that works on one of eight requests is measured at concurrency 1.",
        advice="Look for a limit in the server or a proxy (max-num-seqs, a queue), or lower max_concurrency.",
        rule=_not_served,
    ),
)
