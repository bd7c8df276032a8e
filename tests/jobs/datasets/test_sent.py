"""The part of a prompt that is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs.datasets.prompt import Message, Prompt
from tests.workers.load.builders import params
from workers.load.client import Endpoint, request_body, sent_prompt_tokens, unsent

IDS = Prompt("a", "synthetic", "decoded", token_ids=(5, 6, 7))
TALK = Prompt("b", None, "Be brief.\n\nWhy?", messages=(Message("system", "Be brief."), Message("user", "Why?")))


def body(kind: Any, prompt: Prompt, output_tokens: int = 9) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(request_body(Endpoint("http://x", "m", kind), prompt, params(output_tokens)))
    return read


def test_token_ids_go_to_the_completions_endpoint_and_their_text_to_chat() -> None:
    assert body("completions", IDS)["prompt"] == [5, 6, 7]
    assert body("chat", IDS)["messages"] == [{"role": "user", "content": "decoded"}]


def test_messages_go_to_the_chat_endpoint_and_their_text_to_completions() -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    assert body("chat", TALK)["messages"] == messages
    assert body("completions", TALK)["prompt"] == "Be brief.\n\nWhy?"


def test_sent_tokens_are_known_for_ids_and_for_counted_text() -> None:
    ours, chat = Endpoint("http://x", "m"), Endpoint("http://x", "m", "chat")
    theirs = Endpoint("http://x", "m", foreign=True)
    counted = Prompt("d", None, "some text", text_tokens=2)
    assert [sent_prompt_tokens(ours, prompt) for prompt in (IDS, counted, TALK)] == [3, 2, None]
    assert [sent_prompt_tokens(chat, prompt) for prompt in (IDS, counted, TALK)] == [None] * 3  # a template is around
    assert [sent_prompt_tokens(theirs, prompt) for prompt in (IDS, counted)] == [3, None]  # its tokenizer may differ


@pytest.mark.parametrize(("own", "most", "requested"), [(None, 9, 9), (5, 9, 5), (50, 9, 9)])
def test_a_prompts_own_output_length_is_asked_for_up_to_the_workloads(
    own: int | None, most: int, requested: int
) -> None:
    prompt = Prompt("c", None, "text", output_tokens=own)
    assert body("completions", prompt, most)["max_tokens"] == requested
    assert unsent(prompt, params(most), index=0, intended_send_s=0.0).requested_output_tokens == requested
