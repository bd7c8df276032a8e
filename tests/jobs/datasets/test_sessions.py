"""Conversations become sessions: the turns, what they follow, and the waits between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from jobs.datasets.loader import check_workload, load_prompts
from jobs.datasets.prompt import Message, Prompt, Turn, next_turn
from jobs.datasets.registry import add
from jobs.datasets.sessions import RowTurn, turns_of, without_text
from jobs.datasets.tokenizer import TargetTokenizer
from lab.errors import UserError
from lab.study import Sessions, Workload
from lab.study.workload import NO_TEXT
from tests.jobs.datasets.rows import write_rows


def said(*contents: str) -> list[dict[str, Any]]:
    """A conversation in which user and assistant take turns."""
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(contents)]


CHAT = {"messages": [{"role": "system", "content": "S"}, *said("u1", "a1", "u2", "a2", "u3")], "category": "chat"}


def load(settings: Settings, dataset: str, count: int = 1, **sessions: Any) -> tuple[Prompt, ...]:
    workload = Workload(dataset=dataset, sessions=Sessions(**sessions))
    check_workload(settings, workload, count)
    return load_prompts(settings, workload, count, 0, target="reference")


def registered(settings: Settings, tmp_path: Path, name: str, rows: list[Any]) -> str:
    file = tmp_path / f"{name}.jsonl"
    write_rows(file, rows)
    add(settings.datasets, name, file)
    return name


def new(prompt: Prompt) -> list[list[str]]:
    """The new contents of each turn."""
    return [[m.content for m in prompt.messages or ()], *([m.content for m in t.messages] for t in prompt.later)]


def test_messages_of_your_own_become_turns_that_follow_the_models_answers(settings: Settings, tmp_path: Path) -> None:
    (session,) = load(settings, write_rows(tmp_path / "own.jsonl", [CHAT]))
    assert new(session) == [["S", "u1"], ["u2"], ["u3"]]
    assert [turn.answer for turn in session.later] == [None, None]
    assert (session.turn, session.category, session.prompt_id) == (1, "chat", f"{session.session_id}.1")


def test_recorded_answers_are_replayed_and_a_limit_ends_a_session(settings: Settings, tmp_path: Path) -> None:
    file = write_rows(tmp_path / "own.jsonl", [CHAT])
    (session,) = load(settings, file, answers="recorded")
    assert [turn.answer for turn in session.later] == ["a1", "a2"]
    (short,) = load(settings, file, answers="recorded", max_turns=2)
    assert short.later == session.later[:1]
    assert short.session_id == session.session_id


def test_waits_are_recorded_or_drawn_and_the_same_for_every_arm(settings: Settings, tmp_path: Path) -> None:
    messages = [{**message, "wait_s": place} for place, message in enumerate(said("u1", "a1", "u2", "a2", "u3"))]
    file = write_rows(tmp_path / "own.jsonl", [{"messages": messages}])
    assert [turn.wait_s for turn in load(settings, file)[0].later] == [2.0, 4.0]
    assert [turn.wait_s for turn in load(settings, file, think="none")[0].later] == [0.0, 0.0]
    assert [turn.wait_s for turn in load(settings, file, think="fixed", think_s=3.0)[0].later] == [3.0, 3.0]
    drawn = [load(settings, file, think="exponential", think_s=3.0)[0].later for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert len({turn.wait_s for turn in drawn[0]}) == 2


def test_sharegpt_and_mt_bench_replay_all_their_turns(settings: Settings, tmp_path: Path) -> None:
    spoken = [{"from": ("human", "gpt")[place % 2], "value": text} for place, text in enumerate("abcd")]
    sharegpt = registered(settings, tmp_path, "sharegpt", [{"conversations": spoken}])
    (session,) = load(settings, sharegpt, answers="recorded")
    assert (new(session), session.later[0].answer) == ([["a"], ["c"]], "b")
    asked = {"question_id": 81, "category": "writing", "turns": ["Write.", "Rewrite."]}
    mt_bench = registered(settings, tmp_path, "mt_bench", [asked])
    (session,) = load(settings, mt_bench)
    assert (new(session), session.category) == ([["Write."], ["Rewrite."]], "writing")
    with pytest.raises(UserError, match="dataset mt_bench records no answers to replay"):
        load(settings, mt_bench, answers="recorded")


def test_spec_bench_replays_its_second_turns(settings: Settings, tmp_path: Path) -> None:
    row = {"question_id": 1, "category": "coding", "turns": ["x", "y"]}
    (session,) = load(settings, registered(settings, tmp_path, "spec_bench", [row]))
    assert (new(session), session.category) == ([["x"], ["y"]], "multi_turn")


def test_a_dataset_of_single_turns_has_no_sessions(settings: Settings, tmp_path: Path) -> None:
    own = write_rows(tmp_path / "own.jsonl", [{"prompt": "a"}])
    with pytest.raises(UserError, match="has no conversation of several turns: leave sessions out"):
        load(settings, own)
    with pytest.raises(UserError, match="dataset random has no conversations to replay: leave sessions out"):
        check_workload(settings, Workload(dataset="random", input_tokens=4, sessions=Sessions()), 1)


class TestTraces:
    def history(self) -> list[dict[str, Any]]:
        return [
            {"session_id": "s", "messages": said("u1"), "output_length": 5, "timestamp": 0},
            {"session_id": "t", "messages": said("other"), "output_length": 7, "timestamp": 10},
            {"session_id": "s", "messages": said("u1", "a1", "u2"), "output_length": 6, "delay": 1500},
        ]

    def test_requests_of_one_session_become_its_turns(self, settings: Settings, tmp_path: Path) -> None:
        name = registered(settings, tmp_path, "mooncake", self.history())
        sessions = {prompt.text: prompt for prompt in load(settings, name, 2, answers="recorded")}
        assert (new(sessions["u1"]), new(sessions["other"])) == ([["u1"], ["u2"]], [["other"]])
        (later,) = sessions["u1"].later
        assert later == Turn((Message("user", "u2"),), "a1", 1.5)

    def test_a_history_that_was_rewritten_is_sent_as_it_is(self, settings: Settings, tmp_path: Path) -> None:
        rows = [{"session_id": "s", "messages": said("long story"), "output_length": 5}]
        rows += [{"session_id": "s", "messages": said("summary", "fine", "go on"), "output_length": 5}]
        (session,) = load(settings, registered(settings, tmp_path, "mooncake", rows))
        (later,) = session.later
        assert (later.anew, [message.content for message in later.messages]) == (True, ["summary", "fine", "go on"])

    def test_messages_that_are_added_follow_the_models_own_answers(self, settings: Settings, tmp_path: Path) -> None:
        rows = [{"session_id": "s", "message_mode": "delta", "messages": said(text)} for text in ("a", "b")]
        (session,) = load(settings, registered(settings, tmp_path, "mooncake", rows))
        assert session.later == (Turn((Message("user", "b"),)),)

    def test_hashes_become_equal_tokens_where_the_trace_shared_them(self, settings: Settings, tmp_path: Path) -> None:
        rows = [
            {"session_id": "s", "timestamp": 0, "input_length": 600, "output_length": 4, "hash_ids": [7, 8]},
            {"session_id": "s", "timestamp": 9000, "input_length": 700, "output_length": 4, "hash_ids": [7, 9]},
        ]
        name = registered(settings, tmp_path, "mooncake", rows)
        (session,) = load(settings, name, answers="recorded")
        (later,) = session.later
        assert (session.category, session.later[0].anew) == (NO_TEXT, True)
        assert session.token_ids is not None
        assert later.token_ids is not None
        assert (len(session.token_ids), len(later.token_ids)) == (600, 700)
        assert session.token_ids[:512] == later.token_ids[:512]
        assert session.token_ids[512:600] != later.token_ids[512:600]
        (single,) = load_prompts(settings, Workload(dataset=name), 1, 0, target="reference")
        assert (single.token_ids, single.later, single.session_id) == (session.token_ids, (), None)

    def test_without_hashes_a_turn_repeats_the_conversation(self, settings: Settings, tmp_path: Path) -> None:
        rows = [{"session_id": "s", "input_length": 20, "output_length": 4} for _ in range(2)]
        (session,) = load(settings, registered(settings, tmp_path, "mooncake", rows), answers="recorded")
        (later,) = session.later
        assert later.token_ids is not None
        assert (later.token_ids[:20], len(later.token_ids)) == (session.token_ids, 44)

    def test_a_row_without_any_prompt_is_refused(self, settings: Settings, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="line 1: the row needs one of messages, text_input and input_length"):
            registered(settings, tmp_path, "mooncake", [{"timestamp": 0, "output_length": 3}])


def span(conversation: str, start_s: int, end_s: int, *contents: str) -> dict[str, Any]:
    """A GenAI span as OTLP writes it; its last content is the answer."""
    messages = [
        {"role": message["role"], "parts": [{"type": "text", "content": message["content"]}]}
        for message in said(*contents)
    ]
    values = {
        "gen_ai.conversation.id": conversation,
        "gen_ai.input.messages": json.dumps(messages[:-1]),
        "gen_ai.output.messages": json.dumps(messages[-1:]),
        "gen_ai.usage.output_tokens": "3",
    }
    return {
        "name": "chat",
        "startTimeUnixNano": str(start_s * 10**9),
        "endTimeUnixNano": str(end_s * 10**9),
        "attributes": [{"key": key, "value": {"stringValue": value}} for key, value in values.items()],
    }


class TestOpenTelemetry:
    def test_spans_of_a_conversation_become_a_session_with_its_waits(self, settings: Settings, tmp_path: Path) -> None:
        spans = [
            span("c", 5, 7, "u1", "a1", "u2", "a2"),
            span("c", 1, 2, "u1", "a1"),
            {"name": "http", "attributes": []},
        ]
        export = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
        name = registered(settings, tmp_path, "otel", [export, {"resourceSpans": []}])
        (session,) = load(settings, name, answers="recorded")
        assert new(session) == [["u1"], ["u2"]]
        (later,) = session.later
        assert (later.answer, later.wait_s) == ("a1", 3.0)

    def test_tools_are_text_of_their_own(self, settings: Settings, tmp_path: Path) -> None:
        call = {"type": "tool_call", "id": "1", "name": "weather", "arguments": {"city": "Paris"}}
        answer = {"type": "tool_call_response", "id": "1", "response": "rain"}
        messages = [
            {"role": "user", "parts": [{"type": "text", "content": "weather?"}]},
            {"role": "assistant", "parts": [call]},
            {"role": "tool", "parts": [answer]},
        ]
        flat = {"attributes": {"gen_ai.input.messages": messages, "gen_ai.system_instructions": "Help."}}
        name = registered(settings, tmp_path, "otel", [flat])
        (prompt,) = load_prompts(settings, Workload(dataset=name), 1, 0)
        assert [(m.role, m.content) for m in prompt.messages or ()] == [
            ("system", "Help."),
            ("user", "weather?"),
            ("assistant", '{"name": "weather", "arguments": {"city": "Paris"}}'),
            ("tool", "rain"),
        ]

    def test_messages_that_are_no_json_are_reported_with_their_line(self, settings: Settings, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="line 1: gen_ai messages must be JSON, got 'Hello'"):
            registered(settings, tmp_path, "otel", [{"attributes": {"gen_ai.input.messages": "Hello"}}])


def test_adjacent_answers_are_one_reply_and_an_opening_one_is_no_turn() -> None:
    messages = [Message("assistant", "Welcome."), *(Message(*pair) for pair in (("user", "u"), ("assistant", "a")))]
    messages += [Message("assistant", "b"), Message("user", "v")]
    first, second = turns_of(messages)
    assert ([message.content for message in first.messages], first.reply) == (["Welcome.", "u"], "a\n\nb")
    assert [message.content for message in second.messages] == ["v"]


def test_the_random_tokens_of_a_trace_are_ordinary_ones(tokenizer: TargetTokenizer) -> None:
    prompt = without_text([RowTurn(input_tokens=40)], None, 1, tokenizer, own_lengths=False)
    assert set(prompt.token_ids or ()) <= set(tokenizer.ordinary_ids.tolist())


def test_the_expected_answer_is_that_of_a_whole_sessions_last_turn(settings: Settings, tmp_path: Path) -> None:
    rows = [CHAT | {"expected": "a3"}, {"messages": said("alone"), "expected": "a1"}]
    sessions = {len(session.later): session for session in load(settings, write_rows(tmp_path / "e.jsonl", rows), 2)}
    assert (sessions[0].expected, sessions[2].expected) == ("a1", None)
    assert [turn.expected for turn in sessions[2].later] == [None, "a3"]
    third = next_turn(next_turn(sessions[2], 1, sessions[2].later[0], "x"), 2, sessions[2].later[1], "y")
    assert (third.turn, third.expected) == (3, "a3")
    (cut,) = load(settings, write_rows(tmp_path / "cut.jsonl", rows[:1]), max_turns=2)
    assert [turn.expected for turn in cut.later] == [None]


def test_a_score_needs_expected_answers_unless_it_looks_at_the_answer_alone(settings: Settings, tmp_path: Path) -> None:
    plain = write_rows(tmp_path / "plain.jsonl", [{"prompt": "17 + 25 ="}])
    solved = write_rows(tmp_path / "solved.jsonl", [{"prompt": "17 + 25 =", "expected": "42"}])
    check_workload(settings, Workload(dataset=solved, score="number"), 1)
    check_workload(settings, Workload(dataset=plain, score="json"), 1)
    with pytest.raises(UserError, match="has no expected answers to score by number: give its rows `expected`"):
        check_workload(settings, Workload(dataset=plain, score="number"), 1)
    tested = write_rows(tmp_path / "tested.jsonl", [{"prompt": "def f(): ...", "expected": "assert f() == 1"}])
    check_workload(settings, Workload(dataset=tested, score="unit_tests"), 1)
    for without in (plain, solved):
        with pytest.raises(
            UserError, match=r"has no tests to score by unit_tests: give its rows `expected` with Python"
        ):
            check_workload(settings, Workload(dataset=without, score="unit_tests"), 1)
