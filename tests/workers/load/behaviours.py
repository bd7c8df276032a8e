"""Ways in which a server may answer, by the model to request. As a program it is such a server."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

from tests.workers.load.openai_server import Behaviour, Exchange, serve, sse, usage

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


def says(*events: tuple[Any, ...] | dict[str, Any] | bytes, done: bool = True) -> Behaviour:
    """Tuples are tokens: text, count, finish reason. Bytes are sent as they are."""

    async def behave(x: Exchange) -> None:
        x.head()
        for event in events:
            await x.write(
                event if isinstance(event, bytes) else sse(x.token(*event) if isinstance(event, tuple) else event)
            )
        await x.end(done=done)

    return behave


async def http_error(x: Exchange) -> None:
    x.head("503 Service Unavailable", "application/json")
    await x.write(b'{"error": {"message": "the model is overloaded"}}')
    await x.end(done=False)


async def dies(x: Exchange) -> None:
    """Two tokens, then the connection is gone without the end of the HTTP body."""
    x.head()
    await x.event(x.token("Once", 1))
    await x.event(x.token(" upon", 2))
    x.writer.close()


async def reset(x: Exchange) -> None:
    x.writer.transport.abort()
    await asyncio.sleep(0)


async def no_done(x: Exchange) -> None:
    """All that is needed, but the end of the HTTP body is just that of the connection."""
    x.writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
    x.writer.write(sse(x.token("Once", 1, "stop")))
    await x.writer.drain()
    x.writer.close()


async def gated(x: Exchange) -> None:
    """Says nothing until the gate opens."""
    await x.server.gate.wait()
    await normal(x)


async def half(x: Exchange) -> None:
    """One token, then nothing more until the gate opens."""
    x.head()
    await x.event(x.token("Once", 1))
    await x.server.gate.wait()


UNCOUNTED = [(word, None) for word in WORDS]
BEHAVIOURS: dict[str, Behaviour] = {
    "normal": normal,
    "several_tokens": functools.partial(normal, step=4),
    #: Half a character is a token without text; an empty chunk that counts nothing is no token.
    "silent_token": says(("", 0), ("", 1), ("é", 2), ("", 2), ("", 2, "stop")),
    #: A server that knows include_usage but not continuous_usage_stats.
    "usage_at_the_end": says(*UNCOUNTED, ("", None, "stop"), {"choices": [], "usage": usage(len(WORDS) + 3)}),
    "no_usage": says(*UNCOUNTED, ("", None, "stop")),
    "error_event": says(("Once", 1), {"error": {"message": "EngineCore died", "code": 500}}),
    #: A stream that ends politely, but before its end.
    "cut_short": says(("Once", 1), done=False),
    "no_done": no_done,
    "aborted": says(("Once", 1, "abort")),
    "no_output": says(("", 0, "stop")),
    "not_json": says(b"data: {half\n\n"),
    "wrong_shape": says(b"data: [1, 2]\n\n", {"choices": "none"}),
    #: Reasoning in a field of its own, and within the text.
    "thinks": says(
        {"choices": [{"delta": {"reasoning": "Hm. "}}]},
        {"choices": [{"delta": {"reasoning": "So"}}]},
        {"choices": [{"delta": {"content": "Yes."}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage(5)},
    ),
    "thinks_in_tags": says(
        {"choices": [{"delta": {"content": "<think>Hm. So"}}]},
        {"choices": [{"delta": {"content": "</think>\n\nYes."}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage(5)},
    ),
    #: The model ended at once, or has nothing to show for its tokens.
    "ends_at_once": says(
        {"choices": [{"text": ""}]},
        {"choices": [{"text": "", "finish_reason": "stop"}]},
        {"choices": [], "usage": usage(1)},
    ),
    "silent": says({"choices": [{"text": "", "finish_reason": "stop"}]}, {"choices": [], "usage": usage(8)}),
    "http_error": http_error,
    "dies": dies,
    "reset": reset,
    "gated": gated,
    "half": half,
}


async def _main() -> None:
    """Be the server as a process of its own, to be killed: print the address, then serve until the end."""
    async with serve(BEHAVIOURS) as server:
        print(server.base_url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
