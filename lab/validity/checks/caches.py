"""Whether answers were computed: the server's prefix cache, and gateways that cache answers."""

from __future__ import annotations

from itertools import pairwise

from lab.metrics.latency import e2e_ms
from lab.metrics.records import RequestRecord
from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.checks.counting import AT_ONCE_TOK_PER_S, came_at_once, is_long
from lab.validity.evidence import Evidence
from lab.validity.words import ms, of_requests, percent

#: Prefix-cache hits above the share of text that the prompts have in common.
HITS_WARNING, HITS_INVALID = 0.05, 0.2
#: A chat template puts the same tokens before every prompt, rarely more than this many.
TEMPLATE_TOKENS = 256
#: How many times faster than comparable answers an answer may be, beyond what speculation gives.
FASTER_THAN_LIKE = 20


def _prefix_cache(seen: Evidence) -> Answer:
    if seen.run.workload.dataset == "prefix_repetition" or seen.grown("prefix_cache_queries") == 0:
        return None
    rate = seen.number("prefix_cache_hit_rate")
    if rate is None:
        return Missing("the prefix cache's hits and queries")
    own = _shared_share(seen)
    if rate <= own + HITS_WARNING:
        return None
    return Fired(
        f"{percent(rate)} of the prompt tokens came from the prefix cache, though the prompts of this run share only "
        f"{percent(own)} among themselves: the server had seen them before.",
        "invalid" if rate > own + HITS_INVALID else "warning",
    )


def _shared_share(seen: Evidence) -> float:
    """The share of prompt text that another prompt of the run begins with too, plus that of a chat template.

    Counted in characters over the sorted prompts: the longest prefix shared with any prompt is shared with a neighbour.
    """
    prompts = sorted(request.prompt for request in seen.requests)
    shared = sum(_common(earlier, later) for earlier, later in pairwise(prompts))
    own = shared / sum(map(len, prompts)) if shared else 0.0
    lengths = [request.prompt_tokens for request in seen.completed if request.prompt_tokens]
    if seen.run.endpoint == "completions" or not lengths:
        return own
    return own + min(TEMPLATE_TOKENS, *lengths) * len(lengths) / sum(lengths)


def _common(one: str, other: str) -> int:
    """Length of the common prefix, by bisection, because prompts may be long and many."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if one[:middle] == other[:middle] else (least, middle - 1)
    return least


def _cached_answers(seen: Evidence) -> Answer:
    timed = [(took_ms, request) for request in seen.completed if (took_ms := e2e_ms(request)) is not None]
    quick = [(took_ms, request) for took_ms, request in timed if _is_quick(seen, request, took_ms)]
    if not quick:
        return None
    took_ms, fastest = min(quick, key=lambda each: each[0])
    return Fired(
        f"{of_requests(len(quick), len(seen.completed))} were answered faster than any model can: "
        f"{fastest.completion_tokens} tokens in {ms(took_ms)} for the prompt {fastest.prompt_id}. The server answers "
        "from a cache."
    )


def _is_quick(seen: Evidence, request: RequestRecord, took_ms: float) -> bool:
    """Whether it came at once, and faster than possible or than others needed for as many tokens."""
    tokens, usual_ms = request.completion_tokens, seen.number("tpot_p90_ms")
    if tokens is None or not is_long(seen, tokens) or not came_at_once(request):
        return False
    if 1000 * tokens > AT_ONCE_TOK_PER_S * took_ms:
        return True
    return usual_ms is not None and FASTER_THAN_LIKE * took_ms * (1 + seen.drafted_a_round) < usual_ms * tokens


CHECKS = (
    Check(
        name="warm_prefix_cache",
        traps=(13,),
        severity="invalid",
        looks_at=("prefix_cache_hit_rate", "prompt", "prompt_tokens", "endpoint"),
        threshold=f"hits above what the prompts share among themselves by {percent(HITS_WARNING)} of the tokens, "
        f"invalid by {percent(HITS_INVALID)}. On the chat endpoint up to {TEMPLATE_TOKENS} tokens of a template are "
        "allowed. Does not apply to prefix_repetition, where hits are intended",
        why="The same prompts sent twice to a warm server inflated results by up to 86 %.",
        advice="Start the server with VLLM_SERVER_DEV_MODE=1 so that its cache can be reset, or restart it between "
        "runs.",
        look=_prefix_cache,
    ),
    Check(
        name="answers_from_cache",
        traps=(13,),
        severity="invalid",
        looks_at=("sent_s", "end_s", "chunk_s", "completion_tokens", "prompt_id"),
        threshold=f"any answer that came at once (see answers_at_once), and at over {AT_ONCE_TOK_PER_S} tok/s from "
        f"the sending on or in less than 1 / ({FASTER_THAN_LIKE} x (1 + k)) of the time that slow answers (p90) take "
        "for as many tokens",
        why="A gateway that caches answers returns them without a model. Speculation makes an answer at most 1 + k "
        "times faster than its like.",
        advice="Turn the cache of answers off, or measure the engine behind it.",
        look=_cached_answers,
    ),
)
