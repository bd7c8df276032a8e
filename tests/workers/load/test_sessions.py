"""Sessions: turn by turn on one stream, each with the answer before it, after its wait."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest

from jobs.datasets.prompt import Message, Prompt, Turn, warm_up_prompts
from lab.study import Load
from tests.workers.load.behaviours import WORDS
from tests.workers.load.builders import params
from tests.workers.load.openai_server import Server
from workers.load.client import Endpoint
from workers.load.connections import Connections
from workers.load.driver import LoadResult, drive

ANSWER = "".join(WORDS)


def session(name: str, *later: Turn) -> Prompt:
    opening = (Message("system", "Be brief."), Message("user", f"Hello from {name}"))
    text = "\n\n".join(message.content for message in opening)
    return Prompt(f"{name}.1", "chat", text, messages=opening, session_id=name, turn=1, later=later)


def asks(text: str, answer: str | None = None, wait_s: float = 0.0) -> Turn:
    return Turn((Message("user", text),), answer, wait_s)


async def driven(
    connections: Connections, target: Endpoint, sessions: list[Prompt], load: Load | None = None
) -> LoadResult:
    load = load or Load(max_concurrency=1, num_prompts=len(sessions))
    return await drive(connections, target, sessions, load=load, params=params(), seed=0)


def sent(server: Server) -> list[list[tuple[str, str]]]:
    return [[(message["role"], message["content"]) for message in body["messages"]] for body in server.bodies]


async def test_a_turn_continues_what_the_model_itself_answered(connections: Connections, server: Server) -> None:
    target = Endpoint(server.base_url, "normal", kind="chat")
    result = await driven(connections, target, [session("a", asks("And then?"), asks("Why?"))])
    opening = [("system", "Be brief."), ("user", "Hello from a")]
    second = [*opening, ("assistant", ANSWER), ("user", "And then?")]
    assert sent(server) == [opening, second, [*second, ("assistant", ANSWER), ("user", "Why?")]]
    told = [(record.index, record.prompt_id, record.session_id, record.turn) for record in result.requests]
    assert told == [(0, "a.1", "a", 1), (1, "a.2", "a", 2), (2, "a.3", "a", 3)]


async def test_a_recorded_answer_is_replayed_in_place_of_the_models(connections: Connections, server: Server) -> None:
    target = Endpoint(server.base_url, "normal", kind="chat")
    await driven(connections, target, [session("a", asks("And then?", answer="It ended."))])
    assert sent(server)[1][2:] == [("assistant", "It ended."), ("user", "And then?")]


@pytest.mark.parametrize(
    ("field", "behaviour", "kept"),
    [
        (None, "thinks", {}),
        ("reasoning_content", "thinks", {"reasoning_content": "Hm. So"}),
        (None, "thinks_in_tags", {}),
        ("reasoning", "thinks_in_tags", {"reasoning": "Hm. So"}),
        ("reasoning", "normal", {}),
    ],
)
async def test_an_answer_goes_back_without_its_reasoning_or_with_it_in_a_field(
    connections: Connections, server: Server, field: str | None, behaviour: str, kept: dict[str, str]
) -> None:
    target = Endpoint(server.base_url, behaviour, kind="chat")
    await driven(connections, target, [session("a", replace(asks("Why?"), reasoning_field=field))])
    answer = ANSWER if behaviour == "normal" else "Yes."
    assert server.bodies[1]["messages"][2] == {"role": "assistant", "content": answer} | kept


async def test_on_completions_a_turn_begins_with_the_conversation_before_it(
    connections: Connections, server: Server
) -> None:
    await driven(connections, Endpoint(server.base_url, "normal"), [session("a", asks("Why?"))])
    first, second = (body["prompt"] for body in server.bodies)
    assert first == "Be brief.\n\nHello from a"
    assert second == f"{first}\n\n{ANSWER}\n\nWhy?"


async def test_a_rewritten_history_replaces_the_conversation(connections: Connections, server: Server) -> None:
    target = Endpoint(server.base_url, "normal", kind="chat")
    await driven(connections, target, [session("a", replace(asks("In short: why?"), anew=True))])
    assert sent(server)[1] == [("user", "In short: why?")]


async def test_the_concurrency_is_that_of_sessions_and_each_waits_for_its_answers(
    connections: Connections, server: Server
) -> None:
    sessions = [session(name, asks("Why?"), asks("And?")) for name in "abcde"]
    load = Load(max_concurrency=2, num_prompts=5)
    target = Endpoint(server.base_url, "gated", kind="chat")
    running = asyncio.create_task(driven(connections, target, sessions, load))
    await server.requests_arrived(2)
    server.gate.set()
    result = await running
    assert server.most_in_flight == 2
    assert [record.index for record in result.requests] == list(range(15))
    by_session = {name: [r for r in result.requests if r.session_id == name] for name in "abcde"}
    for turns in by_session.values():
        assert [record.turn for record in turns] == [1, 2, 3]
        for before, after in itertools.pairwise(turns):
            assert (after.sent_s or 0.0) >= (before.end_s or 0.0)


async def test_a_turn_waits_for_the_users_think_time_and_is_not_late(connections: Connections, server: Server) -> None:
    sessions = [session("a", asks("Why?", wait_s=0.2))]
    result = await driven(connections, Endpoint(server.base_url, "normal", kind="chat"), sessions)
    first, second = result.requests
    assert second.intended_send_s >= (first.end_s or 0.0) + 0.2
    assert (second.sent_s or 0.0) >= second.intended_send_s
    late_ms = [((record.sent_s or 0.0) - record.intended_send_s) * 1000 for record in result.requests]
    assert result.client.late_send_max_ms == pytest.approx(max(late_ms))


async def test_after_a_failed_turn_the_session_is_recorded_as_failed_unsent(
    connections: Connections, server: Server
) -> None:
    sessions = [session("a", asks("Why?"), asks("And?")), session("b")]
    result = await driven(connections, Endpoint(server.base_url, "http_error", kind="chat"), sessions)
    assert len(server.bodies) == 2
    rest = [(r.index, r.prompt_id, r.sent_s, r.error) for r in result.requests if r.session_id == "a"][1:]
    why = "not sent: an earlier turn of its session failed"
    assert rest == [(1, "a.2", None, why), (2, "a.3", None, why)]
    assert [record.index for record in result.requests] == [0, 1, 2, 3]


async def test_no_turn_begins_after_the_duration(connections: Connections, server: Server) -> None:
    load = Load(max_concurrency=1, num_prompts=1, duration_s=0.3)
    sessions = [session("a", asks("Why?", wait_s=60.0))]
    result = await driven(connections, Endpoint(server.base_url, "normal", kind="chat"), sessions, load)
    assert [record.turn for record in result.requests] == [1]
    assert result.duration_s < 60


def test_the_warm_up_sends_single_turns() -> None:
    (warm,) = warm_up_prompts([session("a", asks("Why?"))], 1)
    assert (warm.later, warm.session_id, warm.turn, warm.requests) == ((), None, None, 1)


@pytest.mark.parametrize("place", [1, 2])
async def test_a_turn_without_texts_sends_the_tokens_of_the_whole_prompt(
    connections: Connections, server: Server, place: int
) -> None:
    later = tuple(Turn((Message("user", f"t{n}"),), anew=True, token_ids=(1, 2, n)) for n in (1, 2))
    opening = Prompt("s.1", "no_text", "t0", token_ids=(1, 2), session_id="s", turn=1, later=later)
    await driven(connections, Endpoint(server.base_url, "normal"), [opening])
    assert server.bodies[place]["prompt"] == [1, 2, place]
