"""Checks that the engine was warm when the window began: compilation, the first requests, the warm-up."""

from __future__ import annotations

import re

import numpy as np

from lab.metrics.latency import ttft_ms
from lab.metrics.records import LEFT_OUT_LINE
from lab.metrics.request_table import RequestTable
from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.evidence import Evidence
from lab.validity.words import ms, percent

#: A pause of this share of the window, together with a log line about compilation, makes a run invalid.
PAUSE_SHARE = 0.05
#: The first TTFT against the one expected from later requests: for a warning, and (with the share above) for invalid.
FIRST_RATIO_WARNING, FIRST_RATIO_INVALID, FIRST_EXCESS_MS = 3, 10, 100
LATER_REQUESTS = 3
_COMPILING = re.compile(
    r"(?:compilation|autotuning)\b.*\bduring inference|compiling a graph for|torch\.compile (?:took|and initial)|"
    r"starting torch\.compile|graph capturing finished|capturing (?:cuda graphs|model for)|triton autotuning for|"
    r"capture cuda graph (?:begin|end)|deepgemm jit|\[autotuner\]|recompile_limit|recompiling function",
    re.IGNORECASE,
)
_LEFT_OUT = re.compile(re.escape(LEFT_OUT_LINE).replace(r"\{\}", r"\d+"))
_LOG_MARKS = re.compile(r"^(?:\(\S+ pid=\d+\) ?)?(?:[A-Z]+ \d\d-\d\d \S+ \[[^\]]*\] ?)?")


def _compilation(evidence: Evidence) -> Answer:
    if evidence.engine_log is None or evidence.window_s is None:
        return Missing("the engine's log")
    if evidence.window_log is None:
        return Missing("where in the engine's log the window lies")
    compiling = [_LOG_MARKS.sub("", line) for line in evidence.window_log if _COMPILING.search(line)]
    if not compiling:
        is_cut = any(_LEFT_OUT.fullmatch(line) for line in evidence.window_log)
        return Missing("the part of the engine's log that was left out") if is_cut else None
    pause_s = _longest_pause_s(evidence.sent)
    return Fired(
        f"The engine compiled within the measured window ({len(compiling)} "
        f"{'line' if len(compiling) == 1 else 'lines'} of its log, the first: {compiling[0][:160]}); the longest pause "
        f"of a request was {pause_s:.2g} of {evidence.window_s:.3g} s.",
        "invalid" if pause_s >= PAUSE_SHARE * evidence.window_s else "warning",
    )


def _longest_pause_s(sent: RequestTable) -> float:
    chunks = sent.lists("chunk_s")
    waits_s = chunks.firsts - sent.numbers("sent_s")
    return float(np.concatenate((chunks.gaps, waits_s[~np.isnan(waits_s)])).max(initial=0.0))


def _first_requests(evidence: Evidence) -> Answer:
    """Check the first TTFTs: a closed loop sends its first requests together, and each may wait for all prompts."""
    together = evidence.run.load.max_concurrency if evidence.run.load.closed_loop else 1
    known_ms = ttft_ms(evidence.sent)
    known_ms = known_ms[~np.isnan(known_ms)]
    first, later = known_ms[:together], known_ms[together:]
    if later.size < LATER_REQUESTS:
        return Missing(f"{LATER_REQUESTS} requests after the first {together} to compare them with")
    likely_ms = float(np.median(later)) * together
    first_ms = float(first.min())
    excess_ms = first_ms - likely_ms
    if first_ms < FIRST_RATIO_WARNING * likely_ms or excess_ms < FIRST_EXCESS_MS:
        return None
    lost = excess_ms / 1000 / evidence.window_s if evidence.window_s else 0.0
    whose = "The first request" if together == 1 else f"The quickest of the first {together} requests"
    return Fired(
        f"{whose} waited {ms(first_ms)} for its first token, where the later ones suggest {ms(likely_ms)} "
        f"(their median is {ms(likely_ms / together)}).",
        "invalid" if first_ms >= FIRST_RATIO_INVALID * likely_ms and lost >= PAUSE_SHARE else "warning",
    )


def _warm_up(evidence: Evidence) -> Answer:
    answered, streams = evidence.run.warmup_requests, evidence.run.load.max_concurrency
    if answered >= streams:
        return None
    return Fired(
        f"The warm-up got answers to {answered} of its requests, fewer than the {streams} streams of the load."
    )


_COLD = "Repeat the run: its engine has compiled by then. If it stays, raise the warm-up or fix the shapes it compiles."
CHECKS = (
    Check(
        name="compilation_in_window",
        traps=(12,),
        severity="invalid",
        looks_at=("log", "log_begin_bytes", "log_end_bytes", "duration_s", "chunk_s"),
        threshold="any log line of the window that reports compiling, autotuning or graph capture; invalid if some "
        f"request also paused for {percent(PAUSE_SHARE)} of the window, else a warning",
        why="Compilation cost first requests 1537 instead of 58 ms.",
        advice=_COLD,
        rule=_compilation,
    ),
    Check(
        name="slow_first_requests",
        traps=(12,),
        severity="invalid",
        looks_at=("sent_s", "first_token_s", "load"),
        threshold="the quickest of the requests that a closed loop sends at once (otherwise: the first) took "
        f"{FIRST_RATIO_WARNING} times, and {FIRST_EXCESS_MS} ms more than, the later median TTFT times "
        f"their number; invalid from {FIRST_RATIO_INVALID} times on if that was {percent(PAUSE_SHARE)} of "
        "the window, else a warning",
        why="Only the first requests paid for something, such as a compilation.",
        advice=_COLD,
        rule=_first_requests,
    ),
    Check(
        name="short_warm_up",
        traps=(12,),
        severity="warning",
        looks_at=("warmup_requests", "load.max_concurrency"),
        threshold="fewer warm-up requests were answered than the load has streams",
        why="Batch sizes that the engine has not seen are compiled or captured at first use.",
        advice="Find out in the server's log why it refused warm-up requests, then repeat the run.",
        rule=_warm_up,
    ),
)
