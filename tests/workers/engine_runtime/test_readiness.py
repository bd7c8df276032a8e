"""A server is asked for no more than it understands."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from jobs.engines.kinds import KINDS
from lab.errors import EngineError
from tests.workers.load.behaviours import http_error, normal
from tests.workers.load.openai_server import Exchange, serve
from tests.workers.stand_in_server import Json, Server, Talk
from workers.engine_runtime.readiness import reach, wait_until_ready
from workers.load.client import Endpoint


@contextlib.contextmanager
def refusing(*fields: str) -> Iterator[Endpoint]:
    """A server that answers 400 to each of these fields; the endpoint asks it for all that is never asked for."""

    def refuses(body: Json) -> tuple[int, str] | None:
        wrong = [field for field in fields if field in body or field in body.get("stream_options", ())]
        return (400, f"Unrecognized request argument supplied: {wrong}") if wrong else None

    server = Server("127.0.0.1", 0, Talk({"/health": lambda: "", "/version": lambda: '{"version": "1.2.3"}'}, refuses))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        yield Endpoint(url, "model", token_ids=True, further={"return_spec_tokens_details": True})
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("refused", "continuous_usage", "token_ids", "further"),
    [
        ((), True, True, True),
        (("continuous_usage_stats",), False, True, True),
        (("return_token_ids",), True, False, True),
        (("return_spec_tokens_details",), True, True, False),
        (("return_token_ids", "continuous_usage_stats"), False, False, False),
    ],
)
async def test_what_a_server_refuses_is_left_out_and_nothing_else(
    refused: tuple[str, ...], *, continuous_usage: bool, token_ids: bool, further: bool
) -> None:
    with refusing(*refused) as endpoint:
        for ready in (
            await wait_until_ready(endpoint, KINDS["vllm"], lambda: None),
            await reach(endpoint, KINDS["vllm"], 600.0),
        ):
            asked = ready.endpoint
            assert (asked.continuous_usage, asked.token_ids, bool(asked.further)) == (
                continuous_usage,
                token_ids,
                further,
            )
            assert ready.version == "1.2.3"


async def test_a_server_that_refuses_what_is_needed_says_so() -> None:
    told = r"HTTP 400: .*'include_usage', 'temperature'"
    with refusing("include_usage", "temperature") as endpoint, pytest.raises(EngineError, match=told):
        await reach(endpoint, KINDS["vllm"], 600.0)


@pytest.mark.parametrize(
    ("refused", "changed"),
    [
        (("max_tokens",), {"limit_key": "max_completion_tokens"}),
        (("max_tokens", "continuous_usage_stats"), {"limit_key": "max_completion_tokens", "continuous_usage": False}),
        (("stream_options",), {"usage_option": False}),
        (("seed",), {"neutral_keys": False}),
        (("top_p", "return_token_ids"), {"neutral_keys": False, "token_ids": False}),
    ],
)
async def test_a_key_that_servers_call_otherwise_is_renamed_or_left_out(
    refused: tuple[str, ...], changed: dict[str, object]
) -> None:
    with refusing(*refused) as endpoint:
        asked = (await reach(endpoint, KINDS["vllm"], 600.0)).endpoint
    assert {name: getattr(asked, name) for name in changed} == changed
    assert asked.usage_option or len(changed) == 1


@pytest.mark.parametrize("status", ["503 Service Unavailable", "504 Gateway Timeout", "429 Too Many Requests"])
async def test_a_server_that_is_loading_or_busy_is_waited_for(status: str) -> None:
    asked = 0

    async def loads(x: Exchange) -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            await normal(x)
            return
        x.head(status, "text/plain")
        await x.write(b"later")
        await x.end(done=False)

    async with serve({"loads": loads}) as server:
        ready = await reach(Endpoint(server.base_url, "loads", foreign=True), KINDS["endpoint"], 600.0)
    assert (asked, ready.version) == (3, None)


async def test_a_server_that_loads_for_too_long_is_named_with_its_last_answer() -> None:
    async with serve({"loads": http_error}) as server:
        with pytest.raises(EngineError) as late:
            await reach(Endpoint(server.base_url, "loads", foreign=True), KINDS["endpoint"], 1.0)
    told = f"the server at {server.base_url} did not answer a request: HTTP 503: the model is overloaded"
    assert str(late.value) == f"{told} (it was polled for 1 s)"


async def test_a_proxy_of_the_environment_that_is_not_used_is_named(
    monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy:3128")
    with pytest.raises(
        EngineError, match=r"could not connect: .*HTTPS_PROXY of the worker's environment is not used"
    ) as lost:
        await reach(Endpoint(f"http://127.0.0.1:{unused_tcp_port}", "m", foreign=True), KINDS["endpoint"], 1.0)
    assert "secret" not in str(lost.value)
