"""Unsupported requests are refused with a message instead of being answered differently."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from tests.workers.transformers_server.asks import body, chat, grown, post
from tests.workers.transformers_server.servers import CONTEXT_TOKENS, MODEL

pytestmark = pytest.mark.engine

REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "there is no model 'gpt' here: this server has 'tiny'": (404, {"model": "gpt"}),
    "stop = ['x'] is not supported by this server: leave it out": (400, {"stop": ["x"]}),
    "top_k = 5 is not supported by this server: leave it out": (400, {"top_k": 5}),
    "n = 2 is not supported by this server: leave it out": (400, {"n": 2}),
    "prompt: it has no tokens": (400, {"prompt": ""}),
    "prompt: must be one text or one list of token ids": (400, {"prompt": ["a", "b"]}),
    "prompt: there is no token 2048, the vocabulary ends at 2047": (400, {"prompt": [1, 2048]}),
    "prompt: there is no token -1, the vocabulary ends at 2047": (400, {"prompt": [-1]}),
    "min_tokens 5 is more than max_tokens 4": (400, {"min_tokens": 5, "max_tokens": 4}),
    "temperature: Input should be greater than or equal to 0": (400, {"temperature": -1}),
    "top_p: Input should be greater than 0": (400, {"top_p": 0}),
    "max_tokens: Input should be greater than or equal to 1": (400, {"max_tokens": 0}),
    "stream: Input should be a valid boolean": (400, {"stream": "yes"}),
    (
        "the prompt of 1020 tokens and an answer of 5 do not fit into the context of 1024 tokens: "
        "shorten the prompt or lower max_tokens"
    ): (400, {"prompt": [65] * 1020, "max_tokens": 5}),
}


@pytest.mark.parametrize("sentence", REFUSED)
async def test_it_refuses_with_a_sentence(assisted: str, sentence: str) -> None:
    status, changes = REFUSED[sentence]
    answer = await post(assisted, body(**changes))
    error = {"message": sentence, "type": "BadRequestError", "param": None, "code": status}
    assert answer == (status, {"error": error})


async def test_a_refusal_counts_nothing(assisted: str) -> None:
    growth = await grown(assisted, post(assisted, body(stop=["x"])))
    assert not any(growth.values())


async def test_the_whole_context_may_be_used(assisted: str) -> None:
    status, answer = await post(assisted, body(prompt=[65] * (CONTEXT_TOKENS - 4), max_tokens=4))
    assert status == 200
    assert answer["usage"]["total_tokens"] == CONTEXT_TOKENS


async def test_chat_without_a_limit_fills_the_rest_of_the_context(assisted: str) -> None:
    request = chat(messages=[{"role": "user", "content": "a " * 990}], max_tokens=None)
    status, answer = await post(assisted, request, "/v1/chat/completions")
    assert status == 200
    assert answer["usage"]["total_tokens"] == CONTEXT_TOKENS


@pytest.mark.parametrize("content", [[], "x", {"messages": []}, {"messages": [{"role": "user", "content": 3}]}, {}])
async def test_a_body_of_another_shape_is_refused(assisted: str, content: Any) -> None:
    status, answer = await post(assisted, content, "/v1/chat/completions")
    assert status == 400
    assert answer["error"]["message"]


async def test_a_body_that_is_not_json_is_refused(assisted: str) -> None:
    url = assisted + "/v1/completions"
    async with aiohttp.ClientSession() as session, session.post(url, data=b'{"prompt": ') as response:
        assert response.status == 400
        assert (await response.json())["error"]["message"].startswith("the body is not JSON")


async def test_values_without_effect_are_accepted(assisted: str) -> None:
    neutral = {"n": 1, "stop": None, "top_k": -1, "repetition_penalty": 1.0, "logprobs": None, "model": MODEL}
    assert (await post(assisted, body(max_tokens=1, **neutral)))[0] == 200
