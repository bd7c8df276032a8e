"""Whatever a server does to its connections: each request ends, in time, with its own answer or a reason."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from lab.metrics.records import RequestRecord
from tests.workers.load.builders import params, prompts
from tests.workers.load.openai_server import sse, usage
from workers.load.client import Endpoint, send
from workers.load.connections import Connections


@dataclass(frozen=True)
class Does:
    """How the server answers one request that it gets."""

    framing: Literal["chunks", "length", "end", "old"] = "chunks"
    done: bool = True
    sizes: tuple[int, ...] = (1 << 16,)  # of the pieces that are sent, in turn
    at: int | None = None  # bytes of the response after which the connection ends; None: all
    resets: bool = False  # instead of closing
    hangs_up: bool = False  # after the response, without having said so
    interim: bool = False  # 103 before it
    status: int = 200


whole = st.builds(
    Does,
    framing=st.sampled_from(["chunks", "length", "old"]),
    done=st.booleans(),
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=4).map(tuple),
    hangs_up=st.booleans(),
    interim=st.booleans(),
)
anything = whole | st.builds(
    Does,
    framing=st.sampled_from(["chunks", "length", "end", "old"]),
    done=st.booleans(),
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=4).map(tuple),
    at=st.none() | st.integers(0, 900),
    resets=st.booleans(),
    hangs_up=st.booleans(),
    interim=st.booleans(),
    status=st.sampled_from([200, 200, 200, 400, 503]),
)


@dataclass
class Script:
    """What the server does with the requests in the order in which they come, and whose they were."""

    steps: list[Does]
    came: list[str] = field(default_factory=list)


def body_of(prompt: str, *, done: bool) -> bytes:
    """Three chunks that repeat the prompt: an answer cannot be taken for another's."""
    events = [{"choices": [{"text": f"{prompt} {place}"}], "usage": usage(place + 1)} for place in range(3)]
    events.append({"choices": [{"text": "", "finish_reason": "length"}]})
    return b"".join(map(sse, events)) + (b"data: [DONE]\n\n" if done else b"")


def response(does: Does, prompt: str) -> bytes:
    """What is sent, were nothing cut off."""
    body = body_of(prompt, done=does.done)
    if does.status != 200:
        body = json.dumps({"error": {"message": f"no answer for {prompt}"}}).encode()
    version = b"HTTP/1.0" if does.framing == "old" else b"HTTP/1.1"
    head = version + b" %d Whatever\r\nContent-Type: text/event-stream\r\n" % does.status
    interim = b"HTTP/1.1 103 Early Hints\r\n\r\n" if does.interim and does.framing != "old" else b""
    if does.framing == "chunks":
        step = max(does.sizes)
        parts = [body[place : place + step] for place in range(0, len(body), step)]
        framed = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        return interim + head + b"Transfer-Encoding: chunked\r\n\r\n" + framed
    length = b"" if does.framing == "end" else b"Content-Length: %d\r\n" % len(body)
    return interim + head + length + b"\r\n" + body


@contextlib.asynccontextmanager
async def serving(script: Script) -> AsyncIterator[str]:
    open_ends: dict[asyncio.StreamWriter, asyncio.Future[None]] = {}

    async def connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_ends[writer] = ended = asyncio.get_running_loop().create_future()
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                prompt = json.loads(await reader.readexactly(length))["prompt"]
                does = script.steps[min(len(script.came), len(script.steps) - 1)]
                script.came.append(prompt)
                if await _answered(writer, does, prompt):
                    break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        ended.set_result(None)

    server = await asyncio.start_server(connection, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in open_ends:
            writer.close()
        await asyncio.gather(*open_ends.values())


async def _answered(writer: asyncio.StreamWriter, does: Does, prompt: str) -> bool:
    """Answer, and return whether the connection ends."""
    sent, place = response(does, prompt)[: does.at], 0
    for turn in range(len(sent)):
        if place >= len(sent):
            break
        size = does.sizes[turn % len(does.sizes)]
        writer.write(sent[place : place + size])
        await writer.drain()
        await asyncio.sleep(0)
        place += size
    if does.resets and does.at is not None:
        writer.transport.abort()
    return does.at is not None or does.hangs_up or does.framing in ("end", "old")


async def _records(steps: list[Does]) -> tuple[list[RequestRecord], Script]:
    """One request for each step, one after the other over the same connections."""
    script = Script(steps)
    async with serving(script) as url, Connections() as connections:
        target = Endpoint(url, "m", foreign=True)
        records = [
            await send(connections, target, prompt, params(), time.perf_counter) for prompt in prompts(len(steps))
        ]
    return records, script


def is_own_answer(record: RequestRecord) -> None:
    assert record.output_text == "".join(f"{record.prompt} {place}" for place in range(3))
    assert (record.completion_tokens, record.prompt_tokens, record.finish_reason) == (3, 7, "length")
    assert record.chunk_tokens == (1, 1, 1)
    moments = [record.sent_s or 0.0, *record.chunk_s, record.end_s or 0.0]
    assert moments == sorted(moments)


@given(st.lists(anything, min_size=1, max_size=6))
def test_each_request_gets_its_own_answer_or_a_reason(steps: list[Does]) -> None:
    records, script = asyncio.run(_records(steps))
    for record in records:
        if record.error is None:
            is_own_answer(record)
        else:
            assert record.error.strip()
            assert "inside Drafthouse" not in record.error
            assert "no complete answer within" not in record.error  # nothing here takes time
        assert record.resent is not None
        assert script.came.count(record.prompt) <= 1 + record.resent <= 2


@given(st.lists(whole, min_size=1, max_size=6))
def test_connections_that_close_between_whole_answers_fail_no_request(steps: list[Does]) -> None:
    records, script = asyncio.run(_records(steps))
    for record in records:
        assert record.error is None
        is_own_answer(record)
        assert script.came.count(record.prompt) == 1
