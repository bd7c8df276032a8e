"""Two published sources as rules: a checklist of practice, and a tuning procedure measured on a mixture of experts.

The checklist asks for interactive use, concurrency, length of answers, acceptance, memory and engine support. The
procedure begins with 3 drafted tokens, tries 4 to 5 where over 50 % are accepted, and drops to 2 or changes the draft
under 30 %. A point is made only where the runs say something about it, with their figures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.advice import theory
from lab.advice.measured import Failed, Measured, Reason
from lab.study.arm import METHODS

#: Up to this concurrency a person reads along and waits for each token.
_INTERACTIVE = 4
_FEW_CONCURRENT, _MANY_CONCURRENT = 10, 32
_LONG_OUTPUT_TOKENS, _SHORT_OUTPUT_TOKENS = 50, 20
_LOW_ALPHA, _HIGH_ALPHA = 0.55, 0.65
_DRAFT_GIB = "2 to 8 GB"
_GIB = 2**30
#: An engine that reserves its memory whole shows less than this between two arms.
_SAME_GIB = 0.1
_SHOWN_CHARACTERS = 300
_LOW_RATE, _HIGH_RATE = 0.30, 0.50
#: How many drafted tokens to begin with.
FIRST_GAMMA = 3


def checklist(one: Measured) -> Iterator[Reason]:
    yield from _interactive(one)
    yield from _concurrency(one)
    yield from _output_length(one)
    yield from _acceptance(one)
    yield _memory(one)
    yield _runs(one)


def _interactive(one: Measured) -> Iterator[Reason]:
    """Interactive use, where speculation is meant to reduce the time per token."""
    if one.concurrency > _INTERACTIVE:
        yield _thumb(
            f"concurrency {one.concurrency} is not interactive use (up to {_INTERACTIVE}): nobody waits for single "
            "tokens, so throughput and cost decide"
        )
        return
    ours, theirs = one.own.tpot_ms, one.baseline.tpot_ms
    times = "the time per token was not measured"
    if ours is not None and theirs:
        times = f"a token takes {one.arm} {ours:.3g} ms and the baseline {theirs:.3g} ms (medians)"
    yield Reason(
        f"concurrency {one.concurrency} is interactive use (up to {_INTERACTIVE}), where the time per token is "
        f"noticed: {times}",
        "rule of thumb",
        one.run_ids,
    )


def _concurrency(one: Measured) -> Iterator[Reason]:
    if one.concurrency > _MANY_CONCURRENT:
        yield _thumb(f"concurrency {one.concurrency}, over {_MANY_CONCURRENT}: likely counterproductive")
    elif one.concurrency < _FEW_CONCURRENT:
        yield _thumb(f"concurrency {one.concurrency}, under {_FEW_CONCURRENT}: a strong candidate")


def _output_length(one: Measured) -> Iterator[Reason]:
    if one.output_tokens is not None and one.output_tokens < _SHORT_OUTPUT_TOKENS:
        yield _thumb(f"answers of {one.output_tokens:.0f} tokens, under {_SHORT_OUTPUT_TOKENS}: marginal")
    elif one.output_tokens is not None and one.output_tokens > _LONG_OUTPUT_TOKENS:
        yield _thumb(f"answers of {one.output_tokens:.0f} tokens, over {_LONG_OUTPUT_TOKENS}: long enough")


def _acceptance(one: Measured) -> Iterator[Reason]:
    alpha = None if one.acceptance_length is None else theory.alpha_of(one.acceptance_length, one.gamma)
    if alpha is not None and alpha < _LOW_ALPHA:
        yield _thumb(f"acceptance of {alpha:.2f} a token, under {_LOW_ALPHA}: seldom worth it")
    elif alpha is not None and alpha > _HIGH_ALPHA:
        yield _thumb(f"acceptance of {alpha:.2f} a token, over {_HIGH_ALPHA}: meaningful gains")


def _memory(one: Measured) -> Reason:
    """GPU memory taken by the draft, if both arms have telemetry of it."""
    if METHODS.get(one.method) is False:
        return Reason(f"{one.arm} drafts without a model, so it needs no memory for one", "expected", one.run_ids)
    ours, theirs = one.own.gpu_memory_bytes, one.baseline.gpu_memory_bytes
    if ours is None or theirs is None:
        return _thumb(f"the draft's memory was not measured, because no GPU reported it: expect {_DRAFT_GIB}")
    more_gib = (ours - theirs) / _GIB
    if abs(more_gib) >= _SAME_GIB:
        more = "more" if more_gib > 0 else "less"
        used = f"{one.arm} had {abs(more_gib):.1f} GiB {more} GPU memory in use than the baseline"
    else:
        used = (
            f"{one.arm} had as much GPU memory in use as the baseline: an engine that reserves all of it at start-up "
            "takes the draft's part from the KV cache"
        )
    return Reason(f"{used}{_cache(one)}; {_DRAFT_GIB} are usual for a draft", "measured", one.run_ids)


def _cache(one: Measured) -> str:
    ours, theirs = one.own.kv_cache_usage, one.baseline.kv_cache_usage
    if ours is None or theirs is None:
        return ""
    return f"; {one.arm}'s KV cache was at most {ours:.0%} full, the baseline's {theirs:.0%}"


def _runs(one: Measured) -> Reason:
    """Engine support: the engine starts and answers with this draft."""
    return Reason(f"{one.own.engine or 'the engine'} ran {one.method} with k = {one.gamma}", "measured", one.run_ids)


def unsupported(failed: Sequence[Failed]) -> Iterator[Reason]:
    """Missing engine support: arms that failed, with the engine's message."""
    for one in failed:
        runs = f"{len(one.run_ids)} {'run' if len(one.run_ids) == 1 else 'runs'}"
        words = " ".join(one.error.split())[:_SHOWN_CHARACTERS]
        yield Reason(f"{one.arm} ({one.method}, k = {one.gamma}) failed in {runs}: {words}", "measured", one.run_ids)


def tuning(one: Measured) -> Iterator[Reason]:
    """Which number of drafted tokens to try next."""
    rate = one.acceptance_rate
    if rate is None:
        return
    if rate > _HIGH_RATE and one.gamma <= FIRST_GAMMA:
        yield Reason(
            f"{rate:.0%} of {one.arm}'s drafted tokens are accepted, over {_HIGH_RATE:.0%}: try 4 to 5 drafted tokens",
            "rule of thumb",
            one.run_ids,
        )
    elif rate < _LOW_RATE:
        instead = "drop to 2 drafted tokens or change the draft model" if one.gamma > 2 else "change the draft model"
        yield Reason(
            f"{rate:.0%} of {one.arm}'s drafted tokens are accepted, under {_LOW_RATE:.0%}: {instead}",
            "rule of thumb",
            one.run_ids,
        )


def _thumb(text: str) -> Reason:
    return Reason(text, "rule of thumb")
