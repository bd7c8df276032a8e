"""One request: the record of a good answer, and the error of each bad one."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Literal

import pytest

from lab.metrics.records import RequestRecord
from lab.study import Sampling
from tests.workers.load.behaviours import WORDS, normal, reset
from tests.workers.load.builders import params, prompts
from tests.workers.load.openai_server import PROMPT_TOKENS, Exchange, Server, serve
from workers.load.client import Endpoint, RequestParams, send
from workers.load.connections import Connections

(PROMPT,) = prompts(1)
NOT_STORED = "its answer is no error of such a server: not stored"


async def sent(
    connections: Connections,
    base_url: str,
    behaviour: str,
    kind: Literal["completions", "chat"] = "completions",
    *,
    parameters: RequestParams | None = None,
) -> RequestRecord:
    target = Endpoint(base_url, behaviour, kind, per_request_spec_metrics=True)
    return await send(connections, target, PROMPT, parameters or params(), time.perf_counter)


@pytest.mark.parametrize("kind", ["completions", "chat"])
async def test_a_good_answer_is_recorded_whole(
    connections: Connections, server: Server, kind: Literal["completions", "chat"]
) -> None:
    record = await sent(connections, server.base_url, "normal", kind)
    assert record.error is None
    assert (record.prompt_id, record.category, record.prompt) == ("p0", "prose", PROMPT.text)
    assert record.output_text == "".join(WORDS)
    assert (record.prompt_tokens, record.completion_tokens) == (PROMPT_TOKENS, 9)
    assert record.finish_reason == "length"
    assert record.chunk_tokens == (1,) * 9
    assert (record.spec_drafts, record.spec_draft_tokens, record.spec_accepted_tokens) == (3, 9, 6)


async def test_a_counted_token_without_text_is_output_an_uncounted_chunk_not(
    connections: Connections, server: Server
) -> None:
    record = await sent(connections, server.base_url, "silent_token")
    assert record.error is None
    assert record.chunk_tokens == (1, 1)


@pytest.mark.parametrize("kind", ["completions", "chat"])
async def test_sampling_is_always_sent(
    connections: Connections, server: Server, kind: Literal["completions", "chat"]
) -> None:
    await sent(
        connections,
        server.base_url,
        "normal",
        kind,
        parameters=RequestParams(Sampling(seed=5), 9, ignore_eos=True, timeout_s=600),
    )
    (body,) = server.bodies
    assert (body["temperature"], body["top_p"], body["seed"]) == (0.0, 1.0, 5)
    assert (body["max_tokens"], body["ignore_eos"]) == (9, True)
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert body.get("prompt") == (PROMPT.text if kind == "completions" else None)
    assert body.get("messages") == ([{"role": "user", "content": PROMPT.text}] if kind == "chat" else None)


@pytest.mark.parametrize(("temperature", "sent_keys"), [(0.0, set[str]()), (0.5, {"top_p", "seed"})])
async def test_a_server_that_refuses_a_seed_gets_none_where_it_would_change_nothing(
    connections: Connections, server: Server, temperature: float, sent_keys: set[str]
) -> None:
    asked = RequestParams(Sampling(temperature=temperature), 9, ignore_eos=True, timeout_s=600)
    target = Endpoint(server.base_url, "normal", neutral_keys=False)
    await send(connections, target, PROMPT, asked, time.perf_counter)
    assert {"top_p", "seed"} & set(server.bodies[0]) == sent_keys


@pytest.mark.parametrize("kind", ["completions", "chat"])
@pytest.mark.parametrize("behaviour", ["normal", "several_tokens"])
async def test_a_greedy_output_has_its_tokens_where_the_server_tells_them(
    connections: Connections, server: Server, kind: Literal["completions", "chat"], behaviour: str
) -> None:
    target = Endpoint(server.base_url, behaviour, kind, token_ids=True)
    record = await send(connections, target, PROMPT, params(), time.perf_counter)
    assert (record.error, record.output_token_ids, record.completion_tokens) == (None, tuple(range(9)), 9)


async def test_tokens_are_requested_only_where_they_are_known_and_not_sampled(
    connections: Connections, server: Server
) -> None:
    assert (await sent(connections, server.base_url, "normal")).output_token_ids is None
    sampled = RequestParams(Sampling(temperature=0.7), 9, ignore_eos=True, timeout_s=600)
    telling = Endpoint(server.base_url, "normal", token_ids=True)
    assert (await send(connections, telling, PROMPT, sampled, time.perf_counter)).output_token_ids is None
    assert [body.get("return_token_ids") for body in server.bodies] == [None, None]
    silent = Endpoint(server.base_url, "usage_at_the_end", token_ids=True)  # as an engine of before the question
    record = await send(connections, silent, PROMPT, params(), time.perf_counter)
    assert (record.error, record.output_token_ids) == (None, None)


async def test_ignore_eos_is_not_sent_to_a_server_without_need(connections: Connections, server: Server) -> None:
    await sent(connections, server.base_url, "normal", parameters=params(ignore_eos=False))
    assert "ignore_eos" not in server.bodies[0]


@pytest.mark.parametrize(
    ("behaviour", "words", "chunks"),
    [
        ("http_error", "HTTP 503: .*the model is overloaded", 0),
        ("error_event", "error event in the stream: EngineCore died", 1),
        ("dies", "the connection broke", 2),
        ("reset", "the connection broke", 0),
        ("cut_short", "ended without a finish_reason", 1),
        ("no_done", r"ended without \[DONE\]", 1),
        ("aborted", "gave up on the request .*abort", 1),
        ("no_usage", "gave no usage", len(WORDS)),
        ("no_output", "carried no output", 0),
        ("silent", "carried no output", 0),
        ("not_json", "unreadable event.*half", 0),
        ("wrong_shape", "unreadable event", 0),
    ],
)
async def test_a_bad_answer_is_an_error_that_says_why(
    connections: Connections, server: Server, behaviour: str, words: str, chunks: int
) -> None:
    record = await sent(connections, server.base_url, behaviour)
    assert record.error is not None
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(record.error)
    assert len(record.chunk_s) == chunks
    assert record.end_s is not None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('{"error": {"message": "the model is overloaded", "code": 503}}', "the model is overloaded"),
        ('{"error": "no such model"}', "no such model"),
        ('{"detail": "Not Found"}', "Not Found"),
        (
            '{"detail": [{"loc": ["body", "seed"], "msg": "not permitted", "input": "hunter2"}]}',
            "body.seed: not permitted",
        ),
        ('{"object": "error", "message": {"detail": [{"msg": "not permitted"}]}}', "not permitted"),
        ('[{"error": {"code": 429, "message": "Resource exhausted"}}]', "Resource exhausted"),
        ('{"errors": [{"message": "no such model"}, {"message": "or key"}]}', "no such model; or key"),
        ("internal admin page: password=hunter2", NOT_STORED),
        ('{"password": "hunter2"}', NOT_STORED),
        ('{"error": ["hunter2"]}', NOT_STORED),
        ('[["hunter2"], "hunter2"]', NOT_STORED),
        ('"hunter2"', NOT_STORED),
        ("[" * 50_000, NOT_STORED),
    ],
)
async def test_of_a_foreign_servers_answer_only_an_error_is_stored(
    connections: Connections, body: str, said: str
) -> None:
    """A study names its address: it may be the page of something else in the network."""

    async def refusal(x: Exchange) -> None:
        x.head("403 Forbidden", "text/html")
        await x.write(body.encode())
        await x.end(done=False)

    async with serve({"refusal": refusal}) as server:
        theirs = Endpoint(server.base_url, "refusal", foreign=True)
        record = await send(connections, theirs, PROMPT, params(), time.perf_counter)
        assert record.error == f"HTTP 403 (text/html): {said}"
        ours = await send(connections, replace(theirs, foreign=False), PROMPT, params(), time.perf_counter)
        assert ours.error == f"HTTP 403 (text/html): {body[:500]}"


async def test_a_model_that_ends_at_once_has_answered_with_one_token(connections: Connections, server: Server) -> None:
    record = await sent(connections, server.base_url, "ends_at_once")
    assert (record.error, record.output_text, record.completion_tokens) == (None, "", 1)
    assert len(record.chunk_s) == 1


async def test_a_stale_connection_is_replaced_once_and_that_is_counted(connections: Connections) -> None:
    """The server ends each connection when its second request comes, as if it had closed it just before."""
    seen = set[int]()

    async def closes(x: Exchange) -> None:
        if id(x.writer) in seen:
            x.writer.transport.abort()
            return
        seen.add(id(x.writer))
        writers.append(x.writer)
        await normal(x)

    writers = list[asyncio.StreamWriter]()  # so that no id comes twice
    async with serve({"closes": closes, "reset": reset}) as server:
        records = [await sent(connections, server.base_url, "closes") for _ in range(3)]
        refused = await sent(connections, server.base_url, "reset")
    assert [(record.error, record.resent) for record in records] == [(None, 0), (None, 1), (None, 1)]
    assert (refused.resent, (refused.error or "").split(":")[0]) == (1, "the connection broke")
    assert len(server.bodies) == 7


async def test_a_key_goes_into_the_header_and_requests_to_the_path_that_the_study_names(
    connections: Connections,
) -> None:
    heads = list[bytes]()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 401 No\r\nContent-Length: 4\r\n\r\nk-42")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(talk, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/tenant/"
    target = Endpoint(url, "m", "chat", api_path="/openai", api_key="k-42", api_key_header="api-key")
    async with listening:
        record = await send(connections, target, PROMPT, params(), time.perf_counter)
    lines = heads[0].decode().split("\r\n")
    assert lines[0] == "POST /tenant/openai/chat/completions HTTP/1.1"
    assert "api-key: k-42" in lines
    assert "User-Agent: drafthouse" in lines  # firewalls refuse a request without one
    assert not [line for line in lines if line.startswith("Authorization")]
    assert record.error == "HTTP 401: [the API key]"
    assert "k-42" not in repr(target)


async def test_tokens_are_not_guessed_without_usage(connections: Connections, server: Server) -> None:
    record = await sent(connections, server.base_url, "no_usage")
    assert (record.prompt_tokens, record.completion_tokens, record.chunk_tokens) == (None, None, None)
    assert record.output_text == "".join(WORDS)


async def test_an_answer_that_takes_too_long_is_an_error(connections: Connections, server: Server) -> None:
    for timeout_s in (1, 8, 64):  # the first token comes at once, unless the machine stands still
        record = await sent(connections, server.base_url, "half", parameters=params(timeout_s=timeout_s))
        assert record.error == f"no complete answer within {timeout_s} s"
        if record.output_text:
            break
    assert record.output_text == "Once"


async def test_nobody_listening_is_an_error(connections: Connections, unused_tcp_port: int) -> None:
    record = await sent(connections, f"http://127.0.0.1:{unused_tcp_port}", "normal")
    assert record.error is not None
    assert record.error.startswith("could not connect: ")
    assert (record.first_token_s, record.completion_tokens) == (None, None)
