"""Checks that answers were computed, not read from a prefix cache or from a gateway that caches answers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from lab.metrics.latency import e2e_ms
from lab.metrics.record_table import Mask
from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.checks.counting import AT_ONCE_TOK_PER_S, are_long, came_at_once
from lab.validity.evidence import Evidence
from lab.validity.words import ms, of_requests, percent

#: Prefix-cache hits above the share of text that the prompts have in common.
HITS_WARNING, HITS_INVALID = 0.05, 0.2
#: A chat template puts the same tokens before every prompt, rarely more than this many.
TEMPLATE_TOKENS = 256
#: How many times faster than comparable answers an answer may be, beyond what speculation gives.
FASTER_THAN_LIKE = 20


def _prefix_cache(evidence: Evidence) -> Answer:
    if evidence.run.workload.dataset == "prefix_repetition":
        return None
    rate = _hit_rate(evidence)
    if rate is None:
        return Missing("the prefix cache's hits and queries")
    if evidence.run.workload.sessions is not None:
        return None
    own = _shared_share(evidence) if rate > HITS_WARNING else 0.0
    if rate <= own + HITS_WARNING:
        return None
    return Fired(
        f"{percent(rate)} of the prompt tokens came from the prefix cache, though the prompts of this run share only "
        f"{percent(own)} among themselves: the server had seen them before.",
        "invalid" if rate > own + HITS_INVALID else "warning",
    )


def _session_cache(evidence: Evidence) -> Answer:
    """Check cache hits of sessions: a turn repeats the previous one, which a server may have cached."""
    if evidence.run.workload.sessions is None:
        return None
    rate = _hit_rate(evidence)
    if not rate and evidence.grown("prefix_cache_queries") == 0:
        return None
    if rate is None:
        return Missing("the prefix cache's hits and queries")
    return Fired(
        f"{percent(rate)} of the prompt tokens of these sessions came from the prefix cache: TTFT and throughput are "
        "those of a server that keeps earlier turns."
    )


def _hit_rate(evidence: Evidence) -> float | None:
    """Return the share of prompt tokens from a cache: by the server's counters or by its answers, whichever is greater.

    0 if the counters say that no cache was asked and no answer reports any. Some servers leave the number out of an
    answer where it is 0, so the share by the answers is a lower bound.
    """
    counted = 0.0 if evidence.grown("prefix_cache_queries") == 0 else evidence.number("prefix_cache_hit_rate")
    cached, prompts = (evidence.completed.numbers(name) for name in ("cached_prompt_tokens", "prompt_tokens"))
    if np.isnan(cached).all() or np.isnan(prompts).any():
        return counted
    return max(counted or 0.0, float(np.nansum(cached) / max(1.0, prompts.sum())))


def _shared_share(evidence: Evidence) -> float:
    """Return the share of prompt text with which another prompt of the run also begins, plus the chat template's share.

    Counted in characters over the sorted prompts: the longest prefix shared with any prompt is shared with a neighbour.
    """
    texts: list[Any] = evidence.requests.texts("prompt").to_pylist()
    prompts: list[str] = sorted(texts)
    shared = sum(_common(earlier, later) for earlier, later in pairwise(prompts))
    own = shared / sum(map(len, prompts)) if shared else 0.0
    lengths = evidence.completed.numbers("prompt_tokens")
    lengths = lengths[lengths > 0]
    if evidence.run.endpoint == "completions" or not lengths.size:
        return own
    return own + min(TEMPLATE_TOKENS, float(lengths.min())) * lengths.size / float(lengths.sum())


def _common(text: str, other: str) -> int:
    """Return the length of the common prefix, by bisection, because prompts may be long and many."""
    least, most = 0, min(len(text), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if text[:middle] == other[:middle] else (least, middle - 1)
    return least


def _cached_answers(evidence: Evidence) -> Answer:
    quick = evidence.completed.where(_are_quick(evidence))
    if not len(quick):
        return None
    took_ms = e2e_ms(quick)
    fastest = int(took_ms.argmin())
    return Fired(
        f"{of_requests(len(quick), len(evidence.completed))} were answered faster than any model can: "
        f"{quick.numbers('completion_tokens')[fastest]:.0f} tokens in {ms(took_ms[fastest])} for the prompt "
        f"{quick.texts('prompt_id')[fastest].as_py()}. The server answers from a cache."
    )


def _are_quick(evidence: Evidence) -> Mask:
    """Return which answers came at once, and faster than possible or than others with as many tokens."""
    took_ms, tokens = e2e_ms(evidence.completed), evidence.completed.numbers("completion_tokens")
    faster: Mask = 1000 * tokens > AT_ONCE_TOK_PER_S * took_ms
    if (usual_ms := evidence.number("tpot_p90_ms")) is not None:
        faster |= FASTER_THAN_LIKE * took_ms * (1 + evidence.drafted_a_round) < usual_ms * tokens
    return faster & are_long(evidence) & came_at_once(evidence.completed)


CHECKS = (
    Check(
        name="warm_prefix_cache",
        traps=(13,),
        severity="invalid",
        looks_at=("prefix_cache_hit_rate", "cached_prompt_tokens", "prompt", "prompt_tokens", "endpoint"),
        needs=("prompt", "prompt_tokens", "endpoint"),
        threshold=f"hits exceed what the prompts share by {percent(HITS_WARNING)} of the tokens: a warning; by "
        f"{percent(HITS_INVALID)}: invalid. On the chat endpoint {TEMPLATE_TOKENS} tokens of a template "
        "are allowed. Not for prefix_repetition and sessions, where hits are intended",
        why="The same prompts sent twice to a warm server inflated results by up to 86 %.",
        advice="Start the server with VLLM_SERVER_DEV_MODE=1 so that its cache can be reset, or restart it between "
        "runs.",
        rule=_prefix_cache,
    ),
    Check(
        name="prefix_cache_not_reset",
        traps=(13,),
        severity="warning",
        looks_at=("reset_problem",),
        threshold="any run before which the server did not reset its prefix cache although requested (HTTP 404 does "
        "not count)",
        why="Prompts of an earlier run may come from the cache (see warm_prefix_cache).",
        advice="See what the server, or a proxy, does with POST /reset_prefix_cache, or restart the server between "
        "runs.",
        rule=lambda evidence: (
            Fired(f"The server's prefix cache was not reset before the window: {evidence.run.reset_problem}")
            if evidence.run.reset_problem is not None
            else None
        ),
    ),
    Check(
        name="prefix_cache_of_sessions",
        traps=(13,),
        severity="note",
        looks_at=("prefix_cache_hit_rate", "cached_prompt_tokens", "workload.sessions"),
        needs=("workload.sessions",),
        threshold="any run of sessions on a server whose prefix cache hits are known",
        why="Every turn repeats the turns before it, so cache hits are part of serving sessions.",
        advice="Compare only with runs whose cache is in the same state, as both arms of a study are.",
        rule=_session_cache,
    ),
    Check(
        name="answers_from_cache",
        traps=(13,),
        severity="invalid",
        looks_at=("sent_s", "end_s", "chunk_s", "completion_tokens", "prompt_id"),
        threshold="any answer that came at once (see answers_at_once), and from the sending on at over "
        f"{AT_ONCE_TOK_PER_S} tok/s or in less than 1 / ({FASTER_THAN_LIKE} x (1 + k)) of the time of "
        "slow answers (p90) with as many tokens",
        why="A caching gateway answers without a model. Speculation makes an answer at most 1 + k times faster.",
        advice="Turn off the answer cache, or measure the engine behind it.",
        rule=_cached_answers,
    ),
)
