"""Whatever stream comes, however it is cut: the request ends, a failure has its reason, and no figure is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import hypothesis
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics.latency import e2e_ms, ttft_ms
from lab.metrics.records import RequestRecord
from lab.metrics.request_table import RequestTable
from tests.workers.load.builders import params, prompts
from tests.workers.load.told_truth import PROMPT_TOKENS, Dress, Event, Truth, dresses, events_of, truths, usage, written
from workers.load.client import Endpoint, send
from workers.load.connections import Receiver, Response

(PROMPT,) = prompts(1)
#: A value of another type than each key has.
WRONG = st.sampled_from(["text", 1.5, -1, 2**40, [1], {"a": 1}, True])


@dataclass
class Wire:
    """A network in memory: piece number n arrives n seconds after the request."""

    pieces: list[bytes]
    broken: bool = False  # at the end, by a reset
    is_whole: bool = True  # the HTTP body ended as it announced
    now_s: float = field(default=0.0)

    async def post(
        self,
        _url: str,
        _headers: Mapping[str, str],
        _body: bytes,
        receiver: Receiver,
        _clock: Callable[[], float],
        **_: object,
    ) -> Response:
        for place, piece in enumerate(self.pieces, start=1):
            self.now_s = float(place)
            receiver.receive(self.now_s, piece)
        if self.broken:
            raise ConnectionResetError("the server hung up before the end of its answer")
        return Response(200, b"", "text/event-stream", self.is_whole)


def received(wire: Wire, *, chat: bool) -> RequestRecord:
    target = Endpoint("http://s", "m", "chat" if chat else "completions")
    return asyncio.run(send(wire, target, PROMPT, params(), lambda: wire.now_s))  # type: ignore[arg-type]


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    bounds = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[begin:end] for begin, end in pairwise(bounds)]


def arrivals_s(dress: Dress, ends: list[int], pieces: list[bytes]) -> list[float]:
    """When the events that end at these bytes were whole: with the piece that has their last byte.

    A line that ends in CR ends with it, whatever follows.
    """
    last_s, reached = [], list(accumulate(map(len, pieces)))
    for end in ends:
        needed = end - (dress.line_end == b"\r\n")  # CR of the blank line
        last_s.append(float(next(place for place, until in enumerate(reached, start=1) if until >= needed)))
    return last_s


def is_true(record: RequestRecord, truth: Truth, times_s: list[float], *, chat: bool) -> None:
    """Every figure of a record without an error is the truth, or unknown."""
    assert record.output_text == truth.text
    assert (record.completion_tokens, record.prompt_tokens) == (truth.tokens, PROMPT_TOKENS)
    assert record.finish_reason == truth.finish
    assert record.cached_prompt_tokens in (None, truth.cached)
    assert list(record.chunk_s) == times_s
    assert record.first_token_s == times_s[0]
    assert record.chunk_tokens in (None, tuple(tokens for _, tokens, _ in truth.chunks))
    if chat and any(thought for _, _, thought in truth.chunks):
        assert record.reasoning_chars == sum(len(text) for text, _, thought in truth.chunks if thought)
    table = RequestTable.of([record])
    assert ttft_ms(table)[0] == 1000 * times_s[0]
    assert e2e_ms(table)[0] >= ttft_ms(table)[0]


def stream_of(truth: Truth, dress: Dress, events: list[Event]) -> tuple[bytes, list[int]]:
    """The bytes of the stream, and where its first events, those with output, end."""
    written_events = [written(dress, event, place) for place, event in enumerate(events)]
    ends = [len(dress.begins) + end for end in accumulate(map(len, written_events))]
    done = written(dress, b"[DONE]", 0) if dress.done else b""
    return dress.begins + b"".join(written_events) + done, ends[: len(truth.chunks)]


@given(truths(), dresses, st.lists(st.integers(0, 10_000), max_size=12))
def test_a_whole_answer_of_any_dress_is_read_to_the_last_figure(truth: Truth, dress: Dress, places: list[int]) -> None:
    stream, ends = stream_of(truth, dress, events_of(truth, dress))
    pieces = cut(stream, places)
    record = received(Wire(pieces, is_whole=not dress.done or len(places) % 2 == 0), chat=dress.chat)
    assert record.error is None
    is_true(record, truth, arrivals_s(dress, ends, pieces), chat=dress.chat)
    assert record.cached_prompt_tokens == truth.cached
    if dress.usage == "each":
        assert record.chunk_tokens == tuple(tokens for _, tokens, _ in truth.chunks)


@given(truths(), dresses, st.lists(st.integers(0, 10_000), max_size=6), st.integers(0, 10_000), st.booleans())
def test_an_answer_that_is_cut_anywhere_is_whole_or_failed(
    truth: Truth,
    dress: Dress,
    places: list[int],
    at: int,
    broken: bool,  # noqa: FBT001 - hypothesis's
) -> None:
    stream, ends = stream_of(truth, dress, events_of(truth, dress))
    pieces = cut(stream[: at % (len(stream) + 1)], places)
    record = received(Wire(pieces, broken, is_whole=False), chat=dress.chat)
    if broken:
        assert record.error is not None
    if record.error is None:
        is_true(record, truth, [min(t_s, len(pieces)) for t_s in known(dress, ends, pieces)], chat=dress.chat)
    else:
        assert record.error.strip()
        assert truth.text.startswith(record.output_text)


def known(dress: Dress, ends: list[int], pieces: list[bytes]) -> list[float]:
    """As `arrivals_s`; an event whose blank line was cut off is read at the end."""
    return arrivals_s(dress, ends, [*pieces, b"\n" * max(ends)])


def damaged(draw: st.DrawFn, truth: Truth, dress: Dress, events: list[Event]) -> list[Event]:
    """The events with one thing wrong."""
    place = draw(st.integers(0, len(events) - 1))
    before, event, after = events[:place], events[place], events[place + 1 :]
    key = draw(st.sampled_from(["choices", "usage", "error", "timings", "metrics", "x_groq"]))
    early = events[0] | {"usage": usage(truth, dress, truth.chunks[0][1])}
    damages: dict[str, list[Event]] = {
        "an event is missing": [*before, *after],
        "an event comes twice": [*before, event, event, *after],
        "an error": [*before, {"error": {"message": "engine core is dead"}}, event, *after],
        "another type": [*before, event | {key: draw(WRONG)}, *after],
        "no usage": [without(one, "usage") for one in events],
        "an empty usage at the end": [*events, {"choices": [], "usage": {dress.names[0]: None}}],
        "a usage that is too early": [early, *(without(one, "usage") for one in events[1:])],
        "no finish reason": [without(one, "finish_reason") for one in events],
    }
    return damages[draw(st.sampled_from(sorted(damages)))]


def without(event: Event, key: str) -> Event:
    """The event without this key, in its choices too, and without where Groq puts usage."""
    choices = [{name: value for name, value in choice.items() if name != key} for choice in event["choices"]]
    kept = {name: value for name, value in event.items() if name not in {key, "x_groq" if key == "usage" else key}}
    return kept | {"choices": choices}


def said_tokens(dress: Dress, events: list[Event]) -> int | None:
    """The last count that a server gave with its last output or after it."""
    said: int | None = None
    for event in events:
        choices = event.get("choices") or [{}]
        told = event.get("usage") or choices[0].get("usage") or (event.get("x_groq") or {}).get("usage") or {}
        delta = choices[0].get("delta") or choices[0]
        has_output = any(delta.get(name) for name in ("text", "content", "reasoning", "reasoning_content"))
        count = told.get(dress.names[0])
        said = count if has_output or count is not None else said
    return said


@given(st.data(), truths(), dresses, st.lists(st.integers(0, 10_000), max_size=6))
def test_a_damaged_answer_fails_with_its_reason_or_shows_what_the_server_said(
    data: st.DataObject, truth: Truth, dress: Dress, places: list[int]
) -> None:
    """What a server counts is believed here, and compared with what came by the checks of the run."""
    events = data.draw(st.composite(damaged)(truth, dress, events_of(truth, dress)))
    stream, _ = stream_of(truth, dress, events)
    record = received(Wire(cut(stream, places)), chat=dress.chat)
    hypothesis.event("failed" if record.error else "read")
    if record.error is not None:
        assert record.error.strip()
        assert "inside Drafthouse" not in record.error
        return
    assert record.finish_reason == truth.finish
    assert record.completion_tokens == said_tokens(dress, events)
    assert record.prompt_tokens in (None, PROMPT_TOKENS)
    assert list(record.chunk_s) == sorted(record.chunk_s)
    assert record.chunk_tokens is None or sum(record.chunk_tokens) == record.completion_tokens
    assert record.cached_prompt_tokens in (None, truth.cached)
