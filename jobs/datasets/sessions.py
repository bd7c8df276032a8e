"""Converts conversations into the turns of sessions: from messages, or from requests that each repeat the earlier ones.

A turn of a row holds what is new in its request, with the recorded answer to it. Every format with conversations gives
rows with `turns`; a format whose records are single requests names the session of each, and `traces.sessions_of` puts
them together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from jobs.datasets.prompt import Message, Prompt, Turn, id_of_text, turn_id
from jobs.datasets.tokenizer import TargetTokenizer
from lab.study.workload import NO_TEXT, Sessions

#: The size in tokens of a prompt's block, in traces that record the hashes of blocks.
BLOCK_TOKENS = 512
_OF_BLOCK, _OF_TURN, _OF_THINK = 4, 5, 6


@dataclass(frozen=True, slots=True)
class RowTurn:
    """One turn as its file records it: the new messages, the reply to them, and the wait before them.

    With `anew` the messages are the whole conversation. A turn of a trace without texts has `input_tokens`: the length
    of the whole prompt if `block_hashes` tell its content, else of what is new in it.
    """

    messages: tuple[Message, ...] = ()
    reply: str | None = None
    output_tokens: int | None = None
    wait_s: float = 0.0
    anew: bool = False
    input_tokens: int | None = None
    block_hashes: tuple[int, ...] = ()


def turns_of(messages: Sequence[Message], waits_s: Sequence[float] | None = None) -> tuple[RowTurn, ...]:
    """Split a conversation at the assistant's messages: each is the reply to the turn of messages before it.

    `waits_s` has the wait before each message. An unprompted answer is part of the first turn's messages.
    """
    turns: list[RowTurn] = []
    new: list[Message] = []
    wait_s = 0.0
    for message, before_s in zip(messages, waits_s or [0.0] * len(messages), strict=True):
        if message.role != "assistant":
            new.append(message)
            wait_s += before_s
        elif any(earlier.role != "system" for earlier in new):
            turns.append(RowTurn(tuple(new), message.content, wait_s=wait_s))
            new, wait_s = [], 0.0
        elif turns:
            turns[-1] = replace(turns[-1], reply=f"{turns[-1].reply}\n\n{message.content}")
        else:
            new.append(message)
    if any(message.role in ("user", "tool") for message in new):
        turns.append(RowTurn(tuple(new), wait_s=wait_s))
    return tuple(turns)


def what_is_new(
    before: Sequence[Message], messages: Sequence[Message]
) -> tuple[tuple[Message, ...], str | None] | None:
    """Return the messages that a request adds to the previous one, and the recorded answer between them.

    None if the request does not repeat the previous one: its history was shortened or rewritten.
    """
    count = len(before)
    if len(messages) < count + 2 or list(messages[:count]) != list(before) or messages[count].role != "assistant":
        return None
    return tuple(messages[count + 1 :]), messages[count].content


def replayed(
    turns: Sequence[RowTurn], sessions: Sessions, output_tokens: Sequence[int | None], seed: int
) -> tuple[Turn, ...]:
    """Return the later turns of a session as they are sent; `output_tokens` has one for every turn, the first included.

    Where recorded answers are replayed, a session ends before the first turn that follows an unrecorded one. `seed`
    draws the waits of this session.
    """
    waits_s = _waits_s(sessions, [turn.wait_s for turn in turns], seed)
    later: list[Turn] = []
    for index in range(1, len(turns) if sessions.max_turns is None else min(len(turns), sessions.max_turns)):
        before, turn = turns[index - 1], turns[index]
        answer = before.reply if sessions.answers == "recorded" else None
        if sessions.answers == "recorded" and answer is None and not turn.anew:
            break
        kept = sessions.reasoning_field
        later.append(Turn(turn.messages, answer, waits_s[index], output_tokens[index], turn.anew, reasoning_field=kept))
    return tuple(later)


def _waits_s(sessions: Sessions, recorded_s: Sequence[float], seed: int) -> list[float]:
    if sessions.think == "recorded":
        return list(recorded_s)
    if sessions.think_s is None:
        return [0.0] * len(recorded_s)
    if sessions.think == "fixed":
        return [sessions.think_s] * len(recorded_s)
    drawn: list[float] = (
        np.random.default_rng((seed, _OF_THINK)).exponential(sessions.think_s, len(recorded_s)).tolist()
    )
    return drawn


def without_text(
    turns: Sequence[RowTurn],
    sessions: Sessions | None,
    seed: int,
    tokenizer: TargetTokenizer,
    *,
    own_lengths: bool,
    arrival_s: float | None = None,
) -> Prompt:
    """Return a session of a trace without texts as random tokens of the recorded lengths.

    Equal hashes of blocks become equal tokens, so that prompts share here what they shared in the trace. Without hashes
    each turn repeats the conversation before it, with random tokens for the recorded answer.
    """
    wanted = 1 if sessions is None else (sessions.max_turns or len(turns))
    chosen = list(turns[:wanted])
    prompts = _token_ids(chosen, seed, tokenizer)
    texts = tokenizer.decode(prompts)
    lengths = [turn.output_tokens if own_lengths else None for turn in chosen]
    later: list[Turn] = []
    if sessions is not None:
        waits_s = _waits_s(sessions, [turn.wait_s for turn in chosen], seed)
        later = [
            Turn((Message("user", text),), None, wait_s, length, anew=True, token_ids=ids)
            for text, wait_s, length, ids in zip(texts[1:], waits_s[1:], lengths[1:], prompts[1:], strict=True)
        ]
    session_id = id_of_text("\n".join(texts))
    return Prompt(
        session_id if sessions is None else turn_id(session_id, 1),
        NO_TEXT,
        texts[0],
        token_ids=prompts[0],
        output_tokens=lengths[0],
        arrival_s=arrival_s,
        session_id=None if sessions is None else session_id,
        turn=None if sessions is None else 1,
        later=tuple(later),
    )


def _token_ids(turns: Sequence[RowTurn], seed: int, tokenizer: TargetTokenizer) -> list[tuple[int, ...]]:
    prompts: list[tuple[int, ...]] = []
    said: tuple[int, ...] = ()
    for index, turn in enumerate(turns):
        count = turn.input_tokens or 1
        if turn.block_hashes:
            blocks = [_random(tokenizer, BLOCK_TOKENS, _OF_BLOCK, block) for block in turn.block_hashes]
            known = tuple(token for block in blocks for token in block)[:count]
            prompt = known + _random(tokenizer, count - len(known), _OF_TURN, seed, index)
        else:
            prompt = said + _random(tokenizer, count, _OF_TURN, seed, index)
        prompts.append(prompt)
        said = prompt + _random(tokenizer, turn.output_tokens or 0, _OF_TURN, seed, index, 1)
    return prompts


def _random(tokenizer: TargetTokenizer, count: int, *seed: int) -> tuple[int, ...]:
    return tuple(
        np.random.default_rng([abs(part) for part in seed]).choice(tokenizer.ordinary_ids, size=count).tolist()
    )
