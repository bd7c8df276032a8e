"""Runs that show a trap, or what looks like one: the healthy run with one thing wrong."""

from __future__ import annotations

from dataclasses import replace

from pydantic import JsonValue

from lab.metrics.records import RequestRecord
from lab.study import Load, Workload
from lab.study.arm import SCHEDULE
from tests.lab.validity.healthy import STREAMS, TOKENS, Measured, healthy, text_of

RATED = Load(max_concurrency=STREAMS, num_prompts=512, request_rate_rps=8.0)
ALONE = Load(max_concurrency=1, num_prompts=16)
FORCED = {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.5}
#: Lines of an engine's log.
JIT = "Triton kernel JIT compilation during inference: _fwd_kernel. This causes a latency spike."
OVERRIDDEN = (
    "Default vLLM sampling parameters have been overridden by the model's `generation_config.json`: `{}`. If this"
)


def plain() -> Measured:
    return healthy()


def beside(**took: float | None) -> Measured:
    """One other engine was up."""
    return plain().with_run(idle_engines=[{"arm": "beside", **took}])


def disturbed(kind: str, work: str, seconds: float) -> Measured:
    """Another process of ours worked on the machine for so long of the 106 s."""
    return plain().with_run(beside=[{"kind": kind, "what": work, "seconds": seconds}])


def drafted() -> Measured:
    return healthy(drafted=True)


def one_stream(first_ttft_s: float) -> Measured:
    """Sixteen requests one after the other, the first of them with this TTFT."""
    run, end_s = plain(), 0.0
    requests: list[RequestRecord] = []
    for request in run.requests[:16]:
        late_s = first_ttft_s - 0.05 if not requests else 0.0
        shift_s = end_s - (request.sent_s or 0.0)
        moved = replace(
            request,
            intended_send_s=end_s,
            sent_s=end_s,
            first_token_s=(request.first_token_s or 0.0) + shift_s + late_s,
            chunk_s=tuple(t_s + shift_s + late_s for t_s in request.chunk_s),
            end_s=(request.end_s or 0.0) + shift_s + late_s,
        )
        requests.append(moved)
        end_s = moved.end_s or 0.0
    return replace(run.with_run(load=ALONE, duration_s=end_s), requests=tuple(requests))


def slower_second_half(factor: float) -> Measured:
    run = plain()
    half = (run.run.duration_s or 0.0) / 2

    def slow(t_s: float | None) -> float | None:
        return t_s if t_s is None or t_s < half else half + factor * (t_s - half)

    requests = tuple(
        replace(
            request,
            sent_s=slow(request.sent_s),
            first_token_s=slow(request.first_token_s),
            chunk_s=tuple(slow(t_s) or 0.0 for t_s in request.chunk_s),
            end_s=slow(request.end_s),
        )
        for request in run.requests
    )
    return replace(run.with_run(duration_s=half * (1 + factor)), requests=requests)


def cut_prompts() -> Measured:
    """Every prompt above 100 tokens is cut there."""
    run = plain()
    cut = (replace(request, prompt_tokens=min(100, request.prompt_tokens or 0)) for request in run.requests)
    return replace(run, requests=tuple(cut)).with_counters(prompt_tokens=None)


def cut_to(tokens: int) -> Measured:
    """Every prompt is cut to this length, all of them from texts that differ by a tenth at most."""
    run = plain()
    texts = (text_of(place, 1000 + place % 100) for place in range(len(run.requests)))
    cut = (
        replace(request, prompt=text, prompt_tokens=tokens) for request, text in zip(run.requests, texts, strict=True)
    )
    return replace(run, requests=tuple(cut)).with_counters(prompt_tokens=None, prefix_cache_queries=None)


def cached_by_usage() -> Measured:
    """The counters know of no hit, but the usage of the answers does."""
    run = plain()
    warm = (replace(request, cached_prompt_tokens=(request.prompt_tokens or 1) - 1) for request in run.requests)
    return replace(run, requests=tuple(warm))


def at_once(took_s: float | None = None, every: int = 1) -> Measured:
    """Answers whose chunks came together, at their end or after `took_s`."""
    run, some = plain(), []
    for place, request in enumerate(run.requests):
        end_s = request.end_s or 0.0 if took_s is None else (request.sent_s or 0.0) + took_s
        whole = replace(request, first_token_s=end_s, chunk_s=(end_s,) * TOKENS, end_s=end_s)
        some.append(whole if place % every == 0 else request)
    return replace(run, requests=tuple(some))


def overlapping() -> Measured:
    run = plain()
    return run.with_run(duration_s=(run.run.duration_s or 0.0) / 3)


def long_tail() -> Measured:
    """One request of the last ones takes as long as all the others together."""
    run = plain()
    end_s = 2 * (run.run.duration_s or 0.0)
    last = replace(run.requests[-1], end_s=end_s)
    return replace(run.with_run(duration_s=end_s), requests=(*run.requests[:-1], last))


def forced() -> Measured:
    speculation = drafted().run.arm.speculation
    assert speculation is not None
    return drafted().with_arm(speculation=speculation.model_copy(update={"options": FORCED}))


def scheduled(tokens: int) -> Measured:
    """A run whose arm drafts by a schedule, which says this many tokens for its load."""
    speculation = drafted().run.arm.speculation
    assert speculation is not None
    ranges: list[JsonValue] = [[1, 1, 3], [2, 512, tokens]]
    options: dict[str, JsonValue] = {SCHEDULE: ranges}
    return drafted().with_arm(speculation=speculation.model_copy(update={"options": options}))


def long_pause() -> Measured:
    """The first request got its second chunk a twentieth of the window after its first."""
    run = plain()
    first = run.requests[0]
    late = [t_s + 0.1 * (run.run.duration_s or 0.0) for t_s in first.chunk_s[1:]]
    return replace(run, requests=(replace(first, chunk_s=(first.chunk_s[0], *late), end_s=late[-1]), *run.requests[1:]))


def cached_prompts(share: float) -> Measured:
    run = plain()
    before, after = run.run.counters_before, run.run.counters_after
    assert before is not None
    assert after is not None
    queries = (after.prefix_cache_queries or 0.0) - (before.prefix_cache_queries or 0.0)
    return run.with_counters(prefix_cache_hits=(before.prefix_cache_hits or 0.0) + share * queries)


def busy_client(share: float) -> Measured:
    return plain().with_client(cpu_s=share * (plain().run.duration_s or 0.0))


def waiting() -> Measured:
    run = plain().with_run(load=RATED)
    early = (replace(request, intended_send_s=(request.sent_s or 0.0) - 0.1) for request in run.requests)
    return replace(run, requests=tuple(early))


def slowing_clock() -> Measured:
    run = plain()
    half = len(run.samples) // 2
    slow = (replace(sample, gpu_sm_clock_mhz=1500.0) for sample in run.samples[half:])
    return replace(run, samples=(*run.samples[:half], *slow))


def hot_processors() -> Measured:
    """Without a GPU, on processors that slow down."""
    run = plain().with_circumstances(gpus=()).with_samples(gpu_utilisation_percent=None)
    half = len(run.samples) // 2
    slow = (replace(sample, cpu_mhz=2000.0) for sample in run.samples[half:])
    return replace(run, samples=(*run.samples[:half], *slow))


def three_at_once() -> Measured:
    """Events that are written with the third of them; the first comes alone."""
    run, some = plain(), []
    for request in run.requests:
        chunks = request.chunk_s
        chunk_s = (chunks[0], *(chunks[min(TOKENS - 1, 3 * ((place + 2) // 3))] for place in range(1, TOKENS)))
        some.append(replace(request, chunk_s=chunk_s))
    return replace(run, requests=tuple(some))


def busy_while_idle() -> Measured:
    run = plain()
    idle = replace(run.samples[0], requests_in_flight=0, chunks_received=0, engine_running=0)
    return replace(run, samples=(*run.samples, idle, idle, idle))


def may_end() -> Measured:
    run = plain().with_requests(2, completion_tokens=9, finish_reason="stop")
    return run.with_run(workload=Workload(dataset="prose.jsonl", output_tokens=TOKENS, ignore_eos=False))


def short_answers() -> Measured:
    run = drafted()
    short = (
        replace(request, chunk_s=request.chunk_s[:1], completion_tokens=8, requested_output_tokens=8)
        for request in run.requests
    )
    return replace(run, requests=tuple(short))


def queued_first() -> Measured:
    """The first of each stream waited for the prompts of all four."""
    run = plain()
    first = [
        replace(
            request,
            first_token_s=(request.first_token_s or 0.0) + 0.2,
            chunk_s=tuple(t_s + 0.2 for t_s in request.chunk_s),
        )
        for request in run.requests[:STREAMS]
    ]
    return replace(run, requests=(*first, *run.requests[STREAMS:]))


def same_beginning() -> Measured:
    """All prompts begin with the same long text, which is what came from the cache."""
    run = cached_prompts(0.6)
    system = text_of(1, 2000)
    return replace(run, requests=tuple(replace(request, prompt=system + request.prompt) for request in run.requests))


def hiccup() -> Measured:
    run = plain().with_client(loop_lag_p99_ms=19.0, loop_lag_max_ms=600.0)
    return replace(run, samples=(replace(run.samples[0], loop_lag_ms=600.0), *run.samples[1:]))


def ramp() -> Measured:
    load = Load(max_concurrency=STREAMS, num_prompts=512, request_rate_rps=1.0, arrivals="ramp", ramp_to_rps=9.0)
    return slower_second_half(1.5).with_run(load=load)


def long_prompts() -> Measured:
    """A second for the prompt, then 64 tokens in 32 ms."""
    run = plain()
    quick = []
    for request in run.requests:
        first_s = (request.sent_s or 0.0) + 1.0
        chunk_s = tuple(first_s + place * 0.0005 for place in range(TOKENS))
        quick.append(replace(request, first_token_s=first_s, chunk_s=chunk_s, end_s=chunk_s[-1]))
    return replace(run, requests=tuple(quick))


def crowded() -> Measured:
    """A fifth of the answers was held up by the prompts of others, a hundred times as long as the rest."""
    run = plain()
    held = []
    for place, request in enumerate(run.requests):
        first_s = request.first_token_s or 0.0
        chunk_s = tuple(first_s + step * (1.0 if place % 5 == 0 else 0.01) for step in range(TOKENS))
        held.append(replace(request, chunk_s=chunk_s, end_s=chunk_s[-1]))
    return replace(run, requests=tuple(held))
