"""The prompts that are sent, including those of the warm-up."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Message:
    """One turn of a conversation, for the chat endpoint."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    #: Reasoning before the content, and the field in which the server gets it.
    reasoning: tuple[str, str] | None = None

    def sent(self) -> dict[str, str]:
        """Return it as the chat endpoint takes it."""
        reasoning = {} if self.reasoning is None else {self.reasoning[0]: self.reasoning[1]}
        return {"role": self.role, "content": self.content} | reasoning


@dataclass(frozen=True)
class Turn:
    """A later turn of a session: the new `messages` that follow the answer before them.

    That answer is the model's own output, or `answer` if recorded answers are replayed. `wait_s` passes between
    its end and this turn. With `anew` the messages are the whole conversation, not an addition to it. Turns of a
    trace without texts have `token_ids`, the whole prompt. `expected` is the answer that the dataset expects, of the
    last turn. The model's own output is repeated without its reasoning, or with it in the field `reasoning_field`.
    """

    messages: tuple[Message, ...]
    answer: str | None = None
    wait_s: float = 0.0
    output_tokens: int | None = None
    anew: bool = False
    token_ids: tuple[int, ...] | None = None
    expected: str | None = None
    reasoning_field: str | None = None


@dataclass(frozen=True)
class Prompt:
    """One prompt. Its id is a hash of what is sent, so a prompt has the same id in every dataset and on every host.

    `text` is always set: the completions endpoint gets it, unless there are `token_ids` (then it is their decoded
    text); the chat endpoint gets it as one user's message, unless there are `messages` (then it is their contents).
    `output_tokens` is the length that the dataset records, None if the workload does not use it. `arrival_s` is the
    request's time in the recorded trace, in seconds after the first of these prompts. `text_tokens` is the number of
    the target's tokens in the text, where it was counted. `expected` is the answer that the dataset expects.
    `occurrence` says how often the same prompt was sent before in the run: each time it is sampled with another seed.
    `json_schema` is the schema that the engine enforces on the answer, as JSON.

    A prompt with a `session_id` is a turn of that session, and its id is the session's id with the number of the
    turn: in different arms a later turn may contain different answers. `later` are the turns that follow the first.
    """

    prompt_id: str
    category: str | None
    text: str
    token_ids: tuple[int, ...] | None = None
    messages: tuple[Message, ...] | None = None
    output_tokens: int | None = None
    arrival_s: float | None = None
    text_tokens: int | None = None
    expected: str | None = None
    occurrence: int = 0
    json_schema: str | None = None
    session_id: str | None = None
    turn: int | None = None
    later: tuple[Turn, ...] = ()

    @property
    def requests(self) -> int:
        """Return how many requests are sent for it: one for each turn."""
        return 1 + len(self.later)


def turn_id(session_id: str, turn: int) -> str:
    """Return the id of the prompt of a turn, which is the same in every arm whatever the model answered before."""
    return f"{session_id}.{turn}"


def next_turn(before: Prompt, index: int, turn: Turn, output_text: str, reasoning_chars: int = 0) -> Prompt:
    """Return the prompt of a later turn: the conversation `before`, its answer, and the turn's new messages.

    `output_text` is what the model answered, from `reasoning_chars` on without its reasoning, which clients do not
    send back. On the completions endpoint the conversation is the contents of its messages separated by blank lines.
    """
    said = _said(output_text, reasoning_chars, turn) if turn.answer is None else Message("assistant", turn.answer)
    earlier = () if turn.anew else (*(before.messages or (Message("user", before.text),)), said)
    messages = (*earlier, *turn.messages)
    number = index + 1
    return replace(
        before,
        prompt_id=turn_id(before.session_id or before.prompt_id, number),
        text=text_of(messages),
        messages=None if turn.token_ids else messages,
        token_ids=turn.token_ids,
        output_tokens=turn.output_tokens,
        text_tokens=None,
        expected=turn.expected,
        turn=number,
        later=(),
    )


def _said(output_text: str, reasoning_chars: int, turn: Turn) -> Message:
    thought = output_text[:reasoning_chars].strip().removeprefix("<think>").removesuffix("</think>")
    kept = (turn.reasoning_field, thought) if turn.reasoning_field is not None and thought else None
    return Message("assistant", output_text[reasoning_chars:], kept)


def id_of_text(text: str) -> str:
    return _id(text.encode())


def id_of_token_ids(token_ids: Sequence[int]) -> str:
    return _id(json.dumps(list(token_ids)).encode())


def id_of_messages(messages: Sequence[Message]) -> str:
    return _id(json.dumps([message.sent() for message in messages], ensure_ascii=False).encode())


def text_of(messages: Sequence[Message]) -> str:
    """Return a conversation for the completions endpoint, without a chat template."""
    return "\n\n".join(message.content for message in messages)


def _id(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def numbered(prompts: Iterable[Prompt]) -> tuple[Prompt, ...]:
    """Return the prompts with the number of their occurrence."""
    seen: Counter[str] = Counter()
    counted = []
    for prompt in prompts:
        before = seen[prompt.prompt_id]
        counted.append(replace(prompt, occurrence=before) if before else prompt)
        seen[prompt.prompt_id] += 1
    return tuple(counted)


def warm_up_prompts(prompts: Sequence[Prompt], count: int) -> tuple[Prompt, ...]:
    """Return `count` prompts of the same kind and length as `prompts` that share no prefix with any of them.

    A prompt that was sent before would leave its prefix in the server's cache and flatter the measured window.
    """
    return tuple(_disguised(prompts[index % len(prompts)], index) for index in range(count))


def _disguised(prompt: Prompt, index: int) -> Prompt:
    """Return a prompt with a mark before the text, or with token ids backwards from a different start for each."""
    disguised = replace(prompt, prompt_id=f"warm-up-{index}", text=_marked(prompt.text, index), text_tokens=None)
    disguised = replace(disguised, session_id=None, turn=None, later=())
    if prompt.messages:
        first, *others = prompt.messages
        messages = (replace(first, content=_marked(first.content, index)), *others)
        disguised = replace(disguised, messages=messages)
    if prompt.token_ids:
        back = prompt.token_ids[::-1]
        turn = index % max(1, len(back) - 1)  # so that it never begins with the first token of the original
        disguised = replace(disguised, token_ids=back[turn:] + back[:turn])
    return disguised


def _marked(text: str, index: int) -> str:
    mark = f"<{index}> "
    return mark + text[len(mark) :]
