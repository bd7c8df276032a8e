"""Servers of which no registry has a build for a CPU: stand-ins made from what their makers document or publish.

`SERVERS` says of each where its answers were read; none was measured for real. Prints its port.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.workers.engine_runtime import stand_in_sglang, stand_in_tensorrt_llm
from tests.workers.stand_in_server import Handler, Json, Server, Talk

_CHAT = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1790000000, "model": "m"}
_TEXT = {"id": "cmpl-1", "object": "text_completion", "created": 1790000000, "model": "m"}
ACCEPTED, DRAFTED = 1, 3


def _lm_studio_stats(_body: Json, rounds: int, accepted: int) -> list[Json]:
    stats = {
        "tokens_per_second": 51.4,
        "draft_model": "small",
        "total_draft_tokens_count": rounds * DRAFTED,
        "accepted_draft_tokens_count": accepted,
        "rejected_draft_tokens_count": rounds * DRAFTED - accepted,
        "ignored_draft_tokens_count": 0,
    }
    return [{"choices": [], "stats": stats}]


@dataclass(frozen=True)
class Described:
    """How a server answers: what each event and each choice have besides, its pages and its last events."""

    source: str  # where that was read, on 2026-11-27
    event: Json
    choice: Json = field(default_factory=dict)
    counts_in_chunks: bool = False
    pages: Callable[[Talk], dict[str, str]] = lambda _talk: {}
    last_events: Callable[[Json, int, int], list[Json]] = lambda _body, _rounds, _accepted: []
    refuses: Callable[[Json], tuple[int, str] | None] = lambda _body: None


SERVERS = {
    "lm-studio": Described(
        source="LM Studio's documentation: API changelog of 0.3.10, REST API v0; where a stream has stats is not said",
        event=_CHAT | {"system_fingerprint": "m"},
        choice={"logprobs": None},
        last_events=_lm_studio_stats,
    ),
    "ollama": Described(
        source="ollama/ollama, openai/openai.go at 634c416: no statistics of speculation, no counters",
        event=_TEXT | {"system_fingerprint": "fp_ollama"},
        pages=lambda _talk: {"/api/version": '{"version":"0.30.0"}'},
    ),
    "tensorrt-llm": Described(
        source="NVIDIA/TensorRT-LLM, trtllm-serve 1.3.0rc1: counters by position, a mean in the last choice",
        event=_TEXT,
        choice={"logprobs": None, "stop_reason": None, "avg_decoded_tokens_per_iter": 2.0},
        pages=lambda talk: {
            "/metrics": "[]",
            "/prometheus/metrics": stand_in_tensorrt_llm.counters(talk),
            "/version": '{"version": "1.3.0rc1"}',
        },
        refuses=lambda body: stand_in_tensorrt_llm.refuses(body, body["model"]),
    ),
    "sglang": Described(
        source="sgl-project/sglang 0.5.23: rounds on its metrics page, accepted tokens in answers to whoever asks",
        event=_TEXT,
        choice={"logprobs": None, "matched_stop": None},
        counts_in_chunks=True,
        pages=lambda talk: {"/metrics": stand_in_sglang.metrics(talk)},
        last_events=lambda body, rounds, accepted: stand_in_sglang.spec_details(body, rounds, accepted, DRAFTED),
    ),
}


class Other(Handler):
    described: Described

    def _events(self, body: Json) -> Iterator[Json]:
        for event in super()._events(body):
            choices = [self.described.choice | choice for choice in event["choices"]]
            usage: Json = {} if choices and not self.described.counts_in_chunks else {"usage": event.get("usage")}
            yield self.described.event | event | {"choices": choices, "usage": None} | usage


def _page(described: Described, talk: Talk, path: str) -> str:
    return described.pages(talk)[path]


def main() -> None:
    Other.described = described = SERVERS[sys.argv[1]]
    talk = Talk(
        {},
        refuses=described.refuses,
        accepted_each_round=ACCEPTED,
        drafted_each_round=DRAFTED,
        last_events=described.last_events,
    )
    talk.pages = {path: functools.partial(_page, described, talk, path) for path in described.pages(talk)}
    server: Any = Server("127.0.0.1", 0, talk, Other)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
