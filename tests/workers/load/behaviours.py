"""Ways in which a server may answer: one function each, whose name is the model to request."""

from __future__ import annotations

import asyncio

from tests.workers.load.openai_server import Behaviour, Exchange, sse, usage

WORDS = ("Once", " upon", " a", " time", " é", " there", " was", " an", " end")
SPECULATION = {
    "mean_acceptance_length": 3.0,
    "draft_acceptance_rate": 2 / 3,
    "acceptance_histogram": [0, 1, 1, 1],
    "num_spec_steps": 3,
    "num_accepted_draft_tokens": 6,
    "num_draft_tokens": 9,
    "num_spec_tokens": 3,
}


async def normal(x: Exchange, step: int = 1) -> None:
    """`max_tokens` tokens, `step` of them a chunk, counted in each chunk and at the end; acceptance in the last."""
    x.head()
    if x.chat:
        await x.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}], "usage": usage(0)})
    total = x.body["max_tokens"]
    for first in range(0, total, step):
        count = min(first + step, total)
        text = "".join(WORDS[place % len(WORDS)] for place in range(first, count))
        await x.event(x.token(text, count, "length" if count == total else None, range(first, count)))
    await x.event({"choices": [], "usage": usage(total), "metrics": {"speculative_decoding": SPECULATION}})
    await x.end()


async def several_tokens(x: Exchange) -> None:
    await normal(x, step=4)


async def one_write(x: Exchange) -> None:
    """The whole answer in one segment, with comments and CRLF line ends."""
    x.head()
    events = [x.token(word, place + 1, "stop" if place == 8 else None) for place, word in enumerate(WORDS)]
    stream = b": ping\n\n" + b"".join(map(sse, events)) + b"data: [DONE]\n\n"
    await x.write(stream.replace(b"\n", b"\r\n"))
    await x.end(done=False)


async def byte_by_byte(x: Exchange) -> None:
    x.head()
    events = [x.token(word, place + 1, "stop" if place == 8 else None) for place, word in enumerate(WORDS)]
    for byte in b"".join(map(sse, events)) + b"data: [DONE]\n\n":
        await x.write(bytes([byte]))
    await x.end(done=False)


async def usage_at_the_end(x: Exchange) -> None:
    """What a server does that knows include_usage but not continuous_usage_stats."""
    x.head()
    for word in WORDS:
        await x.event(x.token(word, None))
    await x.event(x.token("", None, "stop"))
    await x.event({"choices": [], "usage": usage(len(WORDS) + 3)})
    await x.end()


async def silent_token(x: Exchange) -> None:
    """Half a character is a token without text; an empty chunk that counts nothing is no token."""
    x.head()
    for text, count in (("", 0), ("", 1), ("é", 2), ("", 2)):
        await x.event(x.token(text, count))
    await x.event(x.token("", 2, "stop"))
    await x.end()


async def no_usage(x: Exchange) -> None:
    x.head()
    for word in WORDS:
        await x.event(x.token(word, None))
    await x.event(x.token("", None, "stop"))
    await x.end()


async def http_error(x: Exchange) -> None:
    x.head("503 Service Unavailable", "application/json")
    await x.write(b'{"error": {"message": "the model is overloaded"}}')
    await x.end(done=False)


async def error_event(x: Exchange) -> None:
    x.head()
    await x.event(x.token("Once", 1))
    await x.event({"error": {"message": "EngineCore died", "type": "InternalServerError", "code": 500}})
    await x.end()


async def dies(x: Exchange) -> None:
    """Two tokens, then the connection is gone without the end of the HTTP body."""
    x.head()
    await x.event(x.token("Once", 1))
    await x.event(x.token(" upon", 2))
    x.writer.close()


async def reset(x: Exchange) -> None:
    x.writer.transport.abort()
    await asyncio.sleep(0)


async def cut_short(x: Exchange) -> None:
    """A stream that ends politely, but before its end."""
    x.head()
    await x.event(x.token("Once", 1))
    await x.end(done=False)


async def no_done(x: Exchange) -> None:
    x.head()
    await x.event(x.token("Once", 1, "stop"))
    await x.end(done=False)


async def aborted(x: Exchange) -> None:
    x.head()
    await x.event(x.token("Once", 1, "abort"))
    await x.end()


async def no_output(x: Exchange) -> None:
    x.head()
    await x.event(x.token("", 0, "stop"))
    await x.end()


async def not_json(x: Exchange) -> None:
    x.head()
    await x.write(b"data: {half\n\n")
    await x.end()


async def wrong_shape(x: Exchange) -> None:
    x.head()
    await x.write(b"data: [1, 2]\n\n")
    await x.event({"choices": "none"})
    await x.end()


async def gated(x: Exchange) -> None:
    """Says nothing until the gate opens."""
    await x.server.gate.wait()
    await normal(x)


async def half(x: Exchange) -> None:
    """One token, then nothing more until the gate opens."""
    x.head()
    await x.event(x.token("Once", 1))
    await x.server.gate.wait()


BEHAVIOURS: dict[str, Behaviour] = {
    behaviour.__name__: behaviour
    for behaviour in (
        normal, several_tokens, one_write, byte_by_byte, usage_at_the_end, silent_token, no_usage, http_error,
        error_event, dies, reset, cut_short, no_done, aborted, no_output, not_json, wrong_shape, gated, half,
    )
}  # fmt: skip
