"""Answers whose truth is known, and the streams in which servers of many dresses send them. For the fuzzers."""

from __future__ import annotations

import codecs
import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

PROMPT_TOKENS = 40
Event = dict[str, Any]


@dataclass(frozen=True)
class Truth:
    """What a model generated: the chunks of its output (text, tokens, whether it is reasoning), and how it ended."""

    chunks: tuple[tuple[str, int, bool], ...]
    finish: str
    cached: int | None

    @property
    def text(self) -> str:
        return "".join(text for text, _, _ in self.chunks)

    @property
    def tokens(self) -> int:
        return sum(tokens for _, tokens, _ in self.chunks)


@dataclass(frozen=True)
class Dress:
    """How a server writes an answer down."""

    chat: bool
    usage: str  # where: each, end, last, choice (Moonshot), groq
    names: tuple[str, str]  # of output and prompt tokens
    cached: str
    reasoning: str
    finishes_apart: bool
    every_event: Event  # keys that every chunk has besides
    noise: tuple[bytes, ...]  # before each event, in turn
    line_end: bytes
    begins: bytes
    colon: bytes
    done: bool


#: No event of these is a chunk, and none is an error.
NOISE = (
    b"",
    b": ping\n\n",
    b"event: chunk\n",
    b"id: 7\nretry: 3000\n",
    b"data:\n\n",
    b"data: : OPENROUTER PROCESSING\n\n",
    b'data: {"warning": "the provider is slow today"}\n\n',
    b'data: {"type": "heartbeat", "error": null}\n\n',
    b"\n\n",
)
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=4)


@st.composite
def truths(draw: st.DrawFn) -> Truth:
    texts = draw(st.lists(st.tuples(_TEXT, st.integers(1, 5)), min_size=1, max_size=6))
    thought = draw(st.integers(0, len(texts)))
    return Truth(
        tuple((text, tokens, place < thought) for place, (text, tokens) in enumerate(texts)),
        draw(st.sampled_from(["length", "stop"])),
        draw(st.none() | st.integers(0, PROMPT_TOKENS)),
    )


dresses = st.builds(
    Dress,
    chat=st.booleans(),
    usage=st.sampled_from(["each", "end", "last", "choice", "groq"]),
    names=st.sampled_from([("completion_tokens", "prompt_tokens"), ("output_tokens", "input_tokens")]),
    cached=st.sampled_from(["details", "input", "deepseek", "moonshot", "timings", "computed"]),
    reasoning=st.sampled_from(["reasoning", "reasoning_content", "parts"]),
    finishes_apart=st.booleans(),
    every_event=st.sampled_from([{}, {"error": None}, {"error": ""}, {"error": {}}, {"usage": None}, {"id": "x"}]),
    noise=st.lists(st.sampled_from(NOISE), min_size=1, max_size=4).map(tuple),
    line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    begins=st.sampled_from([b"", codecs.BOM_UTF8]),
    colon=st.sampled_from([b"data: ", b"data:"]),
    done=st.booleans(),
)


def usage(truth: Truth, dress: Dress, tokens: int) -> Event:
    output, prompt = dress.names
    counted: Event = {output: tokens, prompt: PROMPT_TOKENS, "total_tokens": tokens + PROMPT_TOKENS}
    if truth.cached is None:
        return counted
    in_usage: dict[str, Event] = {
        "details": {"prompt_tokens_details": {"cached_tokens": truth.cached}},
        "input": {"prompt_tokens_details": None, "input_tokens_details": {"cached_tokens": truth.cached}},
        "deepseek": {"prompt_cache_hit_tokens": truth.cached},
        "moonshot": {"cached_tokens": truth.cached},
    }
    return counted | in_usage.get(dress.cached, {})


def chunk(dress: Dress, text: str, *, thought: bool = False, finish: str | None = None) -> Event:
    choice: Event = {"index": 0, "finish_reason": finish}
    if not dress.chat:
        choice["text"] = text
    elif not thought:
        choice["delta"] = {"content": text}
    elif dress.reasoning == "parts":
        choice["delta"] = {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]}
    else:
        choice["delta"] = {"content": "", dress.reasoning: text}
    return dict(dress.every_event) | {"choices": [choice]}


def events_of(truth: Truth, dress: Dress) -> list[Event]:
    """The events of the answer; those with output come in the order of its chunks."""
    events, tokens = [], 0
    for place, (text, more, thought) in enumerate(truth.chunks):
        tokens += more
        is_last = place == len(truth.chunks) - 1 and not dress.finishes_apart
        event = chunk(dress, text, thought=thought, finish=truth.finish if is_last else None)
        events.append(event | ({"usage": usage(truth, dress, tokens)} if dress.usage == "each" else {}))
    if dress.finishes_apart:
        events.append(chunk(dress, "", finish=truth.finish))
    last, whole = events[-1], usage(truth, dress, truth.tokens)
    if dress.usage == "choice":
        last["choices"][0]["usage"] = whole
    elif dress.usage == "groq":
        last["x_groq"] = {"usage": whole}
    elif dress.usage == "last":
        last["usage"] = whole
    elif dress.usage == "end":
        events.append({"choices": [], "usage": whole})
    if truth.cached is not None and dress.cached in {"timings", "computed"}:
        cached = {"cache_n": truth.cached} if dress.cached == "timings" else {}
        events[-1]["timings"] = {"prompt_n": PROMPT_TOKENS - truth.cached, **cached}
    return events


def written(dress: Dress, event: Event | bytes, place: int) -> bytes:
    """An event as bytes, after the noise of its place."""
    data = event if isinstance(event, bytes) else json.dumps(event, ensure_ascii=place % 2 == 0).encode()
    whole = dress.noise[place % len(dress.noise)] + dress.colon + data + b"\n\n"
    return whole.replace(b"\n", dress.line_end)
