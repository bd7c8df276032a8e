"""Output is the same with and without assistance, and follows the sampling parameters."""

from __future__ import annotations

import asyncio

import pytest

from tests.workers.transformers_server.asks import complete, text_of

pytestmark = pytest.mark.engine

PROMPTS = (
    "def area(width, height):\n    return width * height\n\n\ndef volume(width, height, depth):\n    return",
    "The old man went down to the sea and",
    "import os\nimport sys\n\n\nclass Reader:\n    def __init__(self, path):\n",
    "red green blue red green blue red green",
)


@pytest.mark.parametrize("prompt", PROMPTS)
async def test_greedy_output_is_that_of_the_target_alone(plain: str, assisted: str, lookup: str, prompt: str) -> None:
    texts = await asyncio.gather(*(text_of(url, prompt=prompt, max_tokens=48) for url in (plain, assisted, lookup)))
    assert texts[1:] == [texts[0]] * 2


async def test_a_seed_decides_what_is_sampled(any_server: str) -> None:
    one, again, other = [await text_of(any_server, temperature=1, top_p=0.95, seed=seed) for seed in (1, 1, 2)]
    assert one == again
    assert one != other


async def test_an_end_token_ends_the_answer_unless_it_is_ignored(any_server: str) -> None:
    stopped = await complete(any_server, ignore_eos=False, max_tokens=60)
    assert stopped["choices"][0]["finish_reason"] == "stop"
    assert stopped["usage"]["completion_tokens"] < 60
    ignored = await complete(any_server, ignore_eos=True, max_tokens=60)
    assert ignored["choices"][0]["finish_reason"] == "length"
    assert ignored["choices"][0]["text"].startswith(stopped["choices"][0]["text"])


async def test_min_tokens_hold_the_end_back(any_server: str) -> None:
    answer = await complete(any_server, ignore_eos=False, min_tokens=50, max_tokens=60)
    assert 50 < answer["usage"]["completion_tokens"] <= 60


async def test_top_p_near_zero_is_greedy(assisted: str) -> None:
    assert await text_of(assisted, temperature=1, top_p=1e-6, seed=3) == await text_of(assisted)


async def test_a_prompt_may_be_token_ids(assisted: str) -> None:
    answer = await complete(assisted, prompt=[65, 66, 67, 68])
    assert answer["usage"]["prompt_tokens"] == 4
