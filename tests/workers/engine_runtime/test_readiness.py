"""A server is asked for no more than it understands."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

from jobs.engines.kinds import KINDS
from lab.errors import EngineError
from tests.workers.stand_in_server import Json, Server, Talk
from workers.engine_runtime.readiness import reach, wait_until_ready
from workers.load.client import Endpoint


@contextlib.contextmanager
def refusing(*fields: str) -> Iterator[Endpoint]:
    """A server that answers 400 to each of these fields; the endpoint asks it for all that is never asked for."""

    def refuses(body: Json) -> tuple[int, str] | None:
        wrong = [field for field in fields if field in body or field in body["stream_options"]]
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
            await reach(endpoint, KINDS["vllm"]),
        ):
            asked = ready.endpoint
            assert (asked.continuous_usage, asked.token_ids, bool(asked.further)) == (
                continuous_usage,
                token_ids,
                further,
            )
            assert ready.version == "1.2.3"


async def test_a_server_that_refuses_what_is_needed_says_so() -> None:
    with refusing("include_usage") as endpoint, pytest.raises(EngineError, match=r"HTTP 400: .*'include_usage'"):
        await reach(endpoint, KINDS["vllm"])
