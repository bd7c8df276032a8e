"""Prompts for the warm-up: of the kind and length of the measured ones, and sharing no beginning with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jobs.datasets.prompt import Prompt


def warm_up_prompts(prompts: Sequence[Prompt], count: int) -> tuple[Prompt, ...]:
    """`count` prompts of the same kind and length as `prompts` that share no prefix with any of them.

    A prompt sent before would leave its prefix in the server's cache and flatter the measured window.
    """
    return tuple(_disguised(prompts[place % len(prompts)], place) for place in range(count))


def _disguised(prompt: Prompt, place: int) -> Prompt:
    """Its text begins with a mark; its token ids are read backwards, from another place for each."""
    disguised = replace(prompt, prompt_id=f"warm-up-{place}", text=_marked(prompt.text, place), text_tokens=None)
    if prompt.messages:
        first, *others = prompt.messages
        messages = (replace(first, content=_marked(first.content, place)), *others)
        disguised = replace(disguised, messages=messages)
    if prompt.token_ids:
        back = prompt.token_ids[::-1]
        turn = place % max(1, len(back) - 1)  # never so far that it begins with its own first token
        disguised = replace(disguised, token_ids=back[turn:] + back[:turn])
    return disguised


def _marked(text: str, place: int) -> str:
    mark = f"<{place}> "
    return mark + text[len(mark) :]
