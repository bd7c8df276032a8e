"""An engine with vLLM's command line, protocol, counters and log, that falls into one trap on demand (`--trap`).

Answers are random words of the prompt's own, a token each STEP_S; with --speculative-config two tokens a step.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import math
import os
import time
import weakref
import zlib
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

STEP_S, FIRST_S = 0.004, 0.01
#: What a trap does from the start of the window on, counted in requests, and how long it compiles.
FORGETS_AT, COMPILES_S = 12, 2.0
PROMPT_LIMIT, SHORT = 64, 10
CHARACTERS_A_TOKEN = 4
VOCABULARY = 2**17
JIT = "Triton kernel JIT compilation during inference: _fwd_kernel. This causes a latency spike"
BUDGET = "max_num_scheduled_tokens is set to 2048 based on the speculative decoding settings"
#: Of which request on an answer is slower, and by how much; the one long answer; how slow a crowded engine is.
SLOWER_FROM, SLOWER, LONG_AT, LONG, CROWDED, OTHERS = 17, 3, 32, 20, 10, 6
#: In which request of the window an engine dies, and with what words; how long an answer a warm-up asks for.
DIES_AT, LAST_WORDS, WARM_UP_TOKENS = 8, "RuntimeError: CUDA error: an illegal memory access was encountered", 10
#: What lies take: how many steps are written as one, how slow steps are so that a busy machine shows them, how long an
#: answer stalls and which do, how much a template adds, and which prompts are too long, in characters.
MERGED, LYING_STEPS, STALL_S, STALLING, TEMPLATE, TOO_LONG = 8, 6, 1.5, (9, 13, 17), 37, 1540
#: Of servers whose events come together: a client that is later than a token takes cannot see it, so the more programs
#: wait for a processor, the slower they are.
BURSTS, CROWD = ("merges", "writes_at_once"), max(1, round(os.getloadavg()[0] / (os.cpu_count() or 1)))
LIES = (
    "honest", "merges", "writes_at_once", "space_first", "stalls", "one_at_a_time", "refuses_longest", "half_text",
    "another_template", "slower_later", "learns", "silent", "serves_others",
)  # fmt: skip
OVERRIDDEN = "Default vLLM sampling parameters have been overridden by the model's `generation_config.json`: `{}`."


@dataclass
class Engine:
    """Its counters, by vLLM's names."""

    trap: str
    drafts: bool
    counted: dict[str, float] = field(default_factory=dict)
    running: int = 0
    since_reset: int = 0
    asked: int = 0
    answers: dict[str, list[str]] = field(default_factory=dict)
    compiling: asyncio.Lock = field(default_factory=asyncio.Lock)
    used: weakref.WeakSet[asyncio.Transport] = field(default_factory=weakref.WeakSet)
    one: asyncio.Lock = field(default_factory=asyncio.Lock)  # request at a time
    windows: int = 0

    def count(self, **grown: float) -> None:
        for name, value in grown.items():
            self.counted[name] = self.counted.get(name, 0.0) + value


ENGINE: web.AppKey[Engine] = web.AppKey("engine", Engine)


def log(text: str) -> None:
    print(f"(EngineCore pid=1) INFO {time.strftime('%m-%d %H:%M:%S')} [core.py:1] {text}", flush=True)


async def answer(request: web.Request) -> web.StreamResponse:
    engine, body = request.app[ENGINE], await request.json()
    engine.since_reset += 1
    engine.asked += 1
    if engine.trap == "closes_used" and request.transport is not None:
        if request.transport in engine.used:  # as if it had closed the connection while the request was on its way
            request.transport.abort()
            return web.Response()
        engine.used.add(request.transport)
    if _refuses(engine, body):
        status = 500 if engine.trap == "wakes_late" else 503
        return web.json_response({"error": {"message": "the model is loading"}}, status=status)
    hangs_up = engine.trap == "hangs_up" and engine.since_reset % 3 == 0
    await _fall_in(engine)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    engine.running += 1
    try:
        async with engine.one if engine.trap == "one_at_a_time" else contextlib.nullcontext():
            await _stream(engine, body, response, request.transport if hangs_up else None)
    finally:
        engine.running -= 1
    return response


def _refuses(engine: Engine, body: dict[str, Any]) -> bool:
    if engine.trap == "refuses_longest" and len(body["prompt"]) >= TOO_LONG:
        return True
    first_ever = engine.trap == "wakes_late" and engine.asked == 1
    return first_ever or (engine.trap == "refuses_warm_up" and body["max_tokens"] == WARM_UP_TOKENS)


async def _fall_in(engine: Engine) -> None:
    """What happens before an answer begins."""
    if engine.trap == "dies" and engine.since_reset == DIES_AT:
        log(LAST_WORDS)
        os._exit(1)
    async with engine.compiling:  # everybody waits
        if engine.trap == "compiles_late" and engine.since_reset == 1:
            await asyncio.sleep(COMPILES_S)
            log(JIT)


async def _stream(
    engine: Engine, body: dict[str, Any], response: web.StreamResponse, broken: asyncio.Transport | None
) -> None:
    """`broken`: the connection that is to break within the answer."""
    prompt_tokens = _length(body["prompt"])
    prompt_tokens = min(prompt_tokens, PROMPT_LIMIT) if engine.trap == "truncates" else prompt_tokens
    tokens = min(body["max_tokens"], SHORT) if engine.trap == "ends_early" else body["max_tokens"]
    forgot = engine.trap == "remembers" and str(body["prompt"]) not in engine.answers
    a_step = 2 if engine.drafts and engine.trap not in ("drafts_nothing", "silent") and not forgot else 1
    a_step = 4 if engine.trap == "learns" and engine.windows > 1 else a_step
    words = _words(engine, body["prompt"], tokens)
    cached = engine.trap == "keeps_answers" and str(body["prompt"]) in engine.answers
    events, rounds, asked = [], 0, engine.since_reset
    step_s = STEP_S * _slower(engine)
    if engine.trap == "space_first":
        await _send(response, [{"choices": [{"index": 0, "text": " ", "finish_reason": None}]}])
    await asyncio.sleep(0 if cached else FIRST_S * (LYING_STEPS if engine.trap in LIES else 1))
    for first in range(0, tokens, a_step):
        count, rounds = min(first + a_step, tokens), rounds + 1
        finish = None if count < tokens else "stop" if engine.trap == "ends_early" else "length"
        text = "".join(words[first:count])
        text = text[: len(text) // 2] if engine.trap == "half_text" else text
        choice: dict[str, Any] = {"index": 0, "text": text, "finish_reason": finish}
        if body.get("return_token_ids"):
            choice["token_ids"] = [zlib.crc32(word.encode()) % VOCABULARY for word in words[first:count]]
        events.append({"choices": [choice], "usage": _usage(engine, prompt_tokens, count)})
        if not cached:
            await asyncio.sleep(step_s)
            await asyncio.sleep(STALL_S if _stalls(engine, asked) and first == tokens // 2 else 0)
        if engine.trap in BURSTS and rounds % MERGED and finish is None:
            continue
        if engine.trap == "merges":
            choice["text"] = "".join(words[max(0, count - len(events) * a_step) : count])
            del events[:-1]
        if not cached and engine.trap != "holds_back":
            await _send(response, events)
            events.clear()
        if broken is not None and count >= SHORT:
            broken.close()
            return
    _counted(engine, prompt_tokens, tokens, rounds)
    engine.answers[str(body["prompt"])] = words
    await _send(response, [*events, _last(engine, prompt_tokens, tokens, rounds)], done=True)


def _length(prompt: str | list[int]) -> int:
    """In tokens, of a text or of ids."""
    return len(prompt) // CHARACTERS_A_TOKEN if isinstance(prompt, str) else len(prompt)


def _slower(engine: Engine) -> int:
    """How many times as long a step takes, of the request that has just come."""
    by_trap = {
        "slows_down": SLOWER if engine.since_reset >= SLOWER_FROM else 1,
        "one_is_long": LONG if engine.since_reset == LONG_AT else 1,
        "crowded": CROWDED,
        "slower_later": LYING_STEPS * (3 if engine.windows > 1 else 1),
    }
    lying_steps = LYING_STEPS * (CROWD if engine.trap in BURSTS else 1)
    return by_trap.get(engine.trap, lying_steps if engine.trap in LIES else 1)


def _stalls(engine: Engine, asked: int) -> bool:
    """Whether the request that came as this one since the window began stalls."""
    return engine.trap == "stalls" and asked in STALLING


def _words(engine: Engine, prompt: str | list[int], tokens: int) -> list[str]:
    if engine.trap == "one_token":
        return [" the"] * tokens
    if engine.trap == "drops_words":  # a lossy draft: one in eight of its words is not the target's
        return [
            " and" if (zlib.crc32(f"{prompt}{place}".encode()) >> 3) % 8 == 0 else word(prompt, place)
            for place in range(tokens)
        ]
    if engine.trap.startswith("samples"):
        return [_sampled(engine)] * tokens
    return [word(prompt, place) for place in range(tokens)]


def word(prompt: str | list[int], place: int) -> str:
    return " " + hashlib.sha256(f"{prompt}{place}".encode()).hexdigest()[:5]


def _sampled(engine: Engine) -> str:
    """One of eight words with falling chances; a lossy sampler never draws the rarer ones."""
    drawn = min(7, int(-math.log2(1 - (zlib.crc32(f"{engine.trap}{engine.asked}".encode()) + 0.5) / 2**32)))
    return f" {drawn % 2 if engine.trap == 'samples_few' else drawn}"


def _usage(engine: Engine, prompt_tokens: int, tokens: int) -> dict[str, Any]:
    reported = {"counts_wrongly": tokens - tokens // 4, "counts_too_few": tokens // 4}.get(engine.trap, tokens)
    cached = {"prompt_tokens_details": {"cached_tokens": prompt_tokens - prompt_tokens // 10}}
    in_usage = cached if engine.trap == "warm_in_usage" else {}
    read = prompt_tokens + (TEMPLATE if engine.trap == "another_template" else 0)
    return {"prompt_tokens": read, "completion_tokens": reported, **in_usage}


def _last(engine: Engine, prompt_tokens: int, tokens: int, rounds: int) -> dict[str, Any]:
    event: dict[str, Any] = {"choices": [], "usage": _usage(engine, prompt_tokens, tokens)}
    if engine.drafts and engine.trap not in ("counts_the_whole", "silent"):
        rounds, tokens = (0, 0) if engine.trap == "drafts_nothing" else (rounds, tokens)
        rounds, tokens = (rounds // 2, tokens // 2) if engine.trap == "forbids_drafts" else (rounds, tokens)
        meta_info = {
            "num_spec_steps": rounds,
            "num_draft_tokens": 3 * rounds,
            "num_accepted_draft_tokens": tokens - rounds,
        }
        event["metrics"] = {"speculative_decoding": meta_info}
    return event


def _counted(engine: Engine, prompt_tokens: int, tokens: int, rounds: int) -> None:
    if engine.trap == "forgets" and engine.since_reset >= FORGETS_AT:  # fewer are counted now than before the window
        engine.counted.clear()
    others = 5 if engine.trap == "is_shared" else 1
    hits = {"warm_cache": 0.9, "keeps_turns": 0.5}.get(engine.trap, 0.0)
    prompt_tokens = _usage(engine, prompt_tokens, tokens)["prompt_tokens"]
    read = 2 if engine.trap == "reads_twice" else 1
    engine.count(prompt_tokens=read * prompt_tokens, generation_tokens=others * tokens)
    engine.count(prefix_cache_queries=prompt_tokens, prefix_cache_hits=hits * prompt_tokens)
    engine.count(num_preemptions=1 if engine.trap == "preempts" else 0)
    if engine.drafts:
        drafted = {"drafts_nothing": 0, "forbids_drafts": rounds // 2}.get(engine.trap, rounds)
        accepted = (
            (tokens - rounds) // 2
            if engine.trap == "requests_disagree"
            else min(tokens - rounds, drafted * (3 if engine.trap == "learns" else 1))
        )
        engine.count(spec_decode_num_drafts=drafted, spec_decode_num_draft_tokens=3 * drafted)
        engine.count(spec_decode_num_accepted_tokens=accepted)


async def _send(response: web.StreamResponse, events: list[dict[str, Any]], *, done: bool = False) -> None:
    """In one write, with the end of the stream behind it."""
    data = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    await response.write((data + ("data: [DONE]\n\n" if done else "")).encode())


async def metrics(request: web.Request) -> web.Response:
    engine = request.app[ENGINE]
    lines = [f"vllm:{name}_total {value}" for name, value in engine.counted.items()]
    running = engine.running + (OTHERS if engine.trap in ("crowded", "serves_others") else 0)
    if engine.trap == "silent":
        return web.Response(status=404)
    lines += [f"vllm:num_requests_running {running}", "vllm:num_requests_waiting 0"]
    accepted = engine.counted.get("spec_decode_num_accepted_tokens", 0.0)
    shares = {"counts_positions": (0.5, 0.1, 0.1), "learns": (1 / 3, 1 / 3, 1 / 3)}.get(engine.trap, (0.75, 0.25, 0.0))
    if engine.drafts:
        name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
        lines += [f'{name}{{position="{place}"}} {share * accepted}' for place, share in enumerate(shares)]
    return web.Response(text="\n".join(lines) + "\n", status=500 if engine.trap == "hides_counters" else 200)


async def reset(request: web.Request) -> web.Response:
    request.app[ENGINE].since_reset = 0
    request.app[ENGINE].windows += "reset_external" not in request.query  # the second tier of the same window
    log("Resetting prefix cache...")
    return web.Response(status=500 if request.app[ENGINE].trap == "keeps_cache" else 200)


async def version(_: web.Request) -> web.Response:
    return web.json_response({"version": "1.2.3-test"})


async def health(_: web.Request) -> web.Response:
    return web.Response()


def application(trap: str, *, drafts: bool = False) -> web.Application:
    app = web.Application()
    app[ENGINE] = Engine(trap, drafts)
    app.add_routes([web.get("/health", health), web.get("/version", version), web.get("/metrics", metrics)])
    app.add_routes([web.post("/v1/completions", answer), web.post("/reset_prefix_cache", reset)])
    return app


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("model")
    for name in ("--host", "--port", "--served-model-name", "--speculative-config", "--trap"):
        parser.add_argument(name)
    for name in ("--per-request-spec-decode-metrics", "--generation-config"):
        parser.add_argument(name)
    given = parser.parse_args()
    graphs = 2 if given.trap == "small_graphs" else 512
    config = f"{{'cudagraph_mode': <CUDAGraphMode.FULL: 2>, 'max_cudagraph_capture_size': {graphs}}}"
    log(f"Initializing a V1 LLM engine (v1.2.3) with config: model='m', seed=0, compilation_config={config}")
    if given.trap == "lowers_budget":
        log(BUDGET)
    if given.trap == "own_sampling":
        log(OVERRIDDEN.format("{'repetition_penalty': 1.1}"))
    app = application(given.trap or "none", drafts=given.speculative_config is not None)
    web.run_app(app, host=given.host, port=int(given.port), print=None, access_log=None)


if __name__ == "__main__":
    main()
