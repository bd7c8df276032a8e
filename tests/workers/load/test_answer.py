"""Whatever a server puts into its events, and wherever TCP cuts them, the answer can be stored; nothing is invented."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.storable import MOST_CHARS
from tests.workers.load.openai_server import usage
from workers.load.answer import DONE, Answer, EventReader

STREAMS = Path(__file__).parent / "streams"
KEYS = (
    "choices", "text", "delta", "content", "reasoning", "finish_reason", "usage", "prompt_tokens", "completion_tokens",
    "metrics", "token_ids", "speculative_decoding", "num_spec_steps", "error", "object", "message",
    "per_step_drafted", "per_step_accepted", "acceptance_histogram_by_draft_length", "completion_tokens_details",
)  # fmt: skip
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)


def answered(*events: object) -> Answer:
    answer = Answer()
    for place, event in enumerate(events):
        answer.take(float(place), event if isinstance(event, bytes) else json.dumps(event).encode())
    return answer


def token(text: object, count: int | None, finish: object = None) -> dict[str, object]:
    event: dict[str, object] = {"choices": [{"text": text, "finish_reason": finish}]}
    return event if count is None else event | {"usage": usage(count)}


@given(st.lists(json_values | st.binary(max_size=20), max_size=6))
def test_nothing_a_server_sends_raises_or_cannot_be_stored(events: list[object]) -> None:
    answer = answered(*events)
    assert answer.problem() is None or answer.problem() != ""
    for text in (answer.text, answer.error or "", answer.finish_reason or ""):
        assert "\0" not in text.encode().decode()
    assert len(answer.error or "") <= MOST_CHARS
    assert all(0 <= count < 2**31 for count in (answer.rounds or {}).values())
    assert all(isinstance(count, int | None) for count in (answer.prompt_tokens, answer.completion_tokens))
    assert answer.chunk_tokens is None or min(answer.chunk_tokens) >= 0
    assert all(-(2**31) <= token_id < 2**31 for token_id in answer.token_ids or ())


def test_counts_that_do_not_reach_the_total_are_unknown_per_chunk() -> None:
    answer = answered(token("a", 1), token("b", 1), {"choices": [], "usage": usage(9)}, DONE)
    assert (answer.completion_tokens, answer.chunk_tokens) == (9, None)


def test_the_first_error_is_the_one_that_is_told() -> None:
    answer = answered({"error": {"message": "out of memory"}}, {"error": "later"}, DONE)
    assert answer.problem() == "error event in the stream: out of memory"


def test_an_error_without_the_usual_shape_is_told_as_it_is() -> None:
    assert answered({"error": "no"}).problem() == "error event in the stream: no"
    assert answered({"object": "error", "message": "old style"}).problem() == "error event in the stream: old style"


@pytest.mark.parametrize("reason", ["cancelled", "timeout", "insufficient_system_resource", "network_error"])
def test_an_answer_that_its_server_gave_up_has_failed(reason: str) -> None:
    problem = answered(token("a", 1), token("", 1, reason), DONE).problem()
    assert problem == f"the server gave up on the request (finish_reason {reason})"


def test_a_chunk_of_a_tools_call_is_output_and_a_refusal_is_text() -> None:
    call = {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}}]}
    said = {"choices": [{"delta": {"content": None, "refusal": "No."}, "finish_reason": "stop"}]}
    answer = answered(call, said, {"choices": [], "usage": usage(4)}, DONE)
    assert (answer.chunk_s, answer.text, answer.problem()) == ([0.0, 1.0], "No.", None)


def test_a_character_in_two_halves_is_put_together() -> None:
    whole = answered(token("\ud83d", 1), token("\ude00", 2))
    assert whole.text == "\U0001f600"
    assert answered(token("\ud83d", 1)).text == "\ufffd"


def test_two_values_in_one_event_are_an_error() -> None:
    assert "more than one JSON value" in (answered(b'{"choices": []} {"choices": []}').problem() or "")


def test_a_wrong_type_is_an_error_that_shows_it() -> None:
    assert "['a'] is not text" in (answered(token(["a"], 1)).problem() or "")
    assert "{'type': 'stop'} is not text" in (answered(token("a", 1, {"type": "stop"})).problem() or "")
    assert "'7' is not a number of tokens" in (
        answered({"choices": [], "usage": {"completion_tokens": "7", "prompt_tokens": 1}}).problem() or ""
    )


def test_token_ids_are_stored_as_sent_and_invalid_ones_are_an_error() -> None:
    def telling(*token_ids: object) -> dict[str, object]:
        return {"choices": [{"text": "x", "token_ids": list(token_ids)}], "usage": usage(3)}

    answer = answered(telling(5, 151_643), telling(), telling(7), DONE)
    assert (answer.token_ids, answer.completion_tokens) == ((5, 151_643, 7), 3)
    assert all(answered(telling(wrong)).error is not None for wrong in ("5", 5.0, None, 2**31))


def test_the_prompts_tokens_are_not_read_and_a_text_about_them_stays() -> None:
    def event(prompt_token_ids: list[int] | None, text: str) -> bytes:
        choice = {"prompt_token_ids": prompt_token_ids, "text": text, "token_ids": [9]}
        return json.dumps({"choices": [choice], "usage": usage(1)}, separators=(",", ":")).encode()

    speaks = 'a ] and {"prompt_token_ids":[1,2]}'
    for prompt in ([], list(range(8000)), None):
        answer = answered(event(prompt, speaks))
        assert (answer.error, answer.text, answer.token_ids) == (None, speaks, (9,))
    assert answered(b'{"choices":[{"prompt_token_ids":[1').error is not None


def read(pieces: list[bytes]) -> list[bytes]:
    reader = EventReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.close()


def test_several_data_lines_are_one_event() -> None:
    assert read([b"data: {\ndata: }\n\n"]) == [b"{\n}"]


def test_an_error_in_llama_cpps_former_form_is_shown_as_the_reason() -> None:
    events = read([b'error: {"code": 500, "message": "out of memory"}\n\n'])
    assert "out of memory" in (answered(*events).problem() or "")


def test_a_last_event_without_its_blank_line_is_not_lost() -> None:
    assert read([b"data: [DONE]"]) == [b"[DONE]"]


def spoken(thought: str, said: str, count: int) -> dict[str, object]:
    delta = {"reasoning_content": thought, "content": said}
    return {"choices": [{"delta": delta, "finish_reason": None}], "usage": usage(count)}


def test_reasoning_ends_where_the_server_says_so() -> None:
    answer = answered(spoken("Let me", "", 2), spoken("", "", 3), spoken(" think.", "", 5), spoken("", "Yes.", 7), DONE)
    reasoning = answer.reasoning
    assert answer.text[reasoning.chars :] == "Yes."
    assert reasoning[:3] == (5, len("Let me think."), 3.0)


def test_a_chunk_of_reasoning_and_answer_is_cut_where_the_server_says() -> None:
    """A round of speculation brings several tokens at once, so vLLM sends both in one delta."""
    both = answered(spoken("Let me", "", 2), spoken(" think.", "Y", 5), spoken("", "es.", 7), DONE)
    assert both.text[both.reasoning.chars :] == "Yes."
    assert both.reasoning[:3] == (5, len("Let me think."), 1.0)
    at_once = answered(spoken("Hm.", "Yes.", 4), DONE).reasoning
    assert at_once[:3] == (4, len("Hm."), 0.0)


def test_a_blank_before_the_reasoning_is_no_answer() -> None:
    answer = answered(spoken("", "\n", 1), spoken("Hm.", "", 3), spoken("", "Yes.", 5), DONE)
    assert answer.reasoning[:3] == (3, len("\nHm."), 2.0)


def test_reasoning_ends_at_its_tag_wherever_chunks_are_cut() -> None:
    cut_within = answered(token("<think>a b</th", 4), token("ink>\n\n4", 6), token("2", 7), DONE)
    assert cut_within.reasoning[:3] == (6, len("<think>a b</think>\n\n"), 1.0)
    cut_between = answered(token("<think>a</think>", 4), token("\n", 5), token("42", 6), DONE)
    assert cut_between.reasoning[:3] == (5, len("<think>a</think>\n"), 2.0)
    unopened = answered(token("a</think>", 4), token("42", 6), DONE)
    assert unopened.reasoning[:3] == (4, len("a</think>"), 1.0)


def test_without_an_answer_all_is_reasoning_and_without_thought_none_is() -> None:
    assert answered(token("<think>a", 2), token(" b", 3), DONE).reasoning[:3] == (3, len("<think>a b"), None)
    assert answered(token("42", 1), DONE).reasoning[:3] == (0, 0, 0.0)
    assert answered(token("<think>a</think>4", None), token("2", None), DONE).reasoning[:3] == (None, 16, 0.0)


def test_the_servers_own_count_of_reasoning_goes_before_that_of_the_chunks() -> None:
    last = {"choices": [], "usage": usage(7) | {"completion_tokens_details": {"reasoning_tokens": 4}}}
    assert answered(spoken("Hm.", "", 5), spoken("", "Yes.", 7), last, DONE).reasoning.tokens == 4


def test_the_count_of_reasoning_is_read_from_sglangs_usage() -> None:
    last = {"choices": [], "usage": usage(7) | {"completion_tokens_details": None, "reasoning_tokens": 4}}
    assert answered(spoken("Hm.", "", 5), spoken("", "Yes.", 7), last, DONE).reasoning.tokens == 4


def test_a_server_that_counts_none_of_its_sent_reasoning_is_not_believed() -> None:
    """vLLM counts from the opening tag that the model wrote; DeepSeek's template writes it."""
    last = {"choices": [], "usage": usage(7) | {"completion_tokens_details": {"reasoning_tokens": 0}}}
    assert answered(spoken("Hm.", "", 5), spoken("", "Yes.", 7), last, DONE).reasoning.tokens == 5
    assert answered(spoken("", "Yes.", 7), last, DONE).reasoning.tokens == 0


def thought_in_rounds(steps: list[int], *said: object) -> tuple[int | None, int | None]:
    """The rounds of the reasoning, and what they accepted, of an answer whose rounds accepted so much each."""
    speculation = {"num_spec_steps": len(steps), "per_step_drafted": [3] * len(steps), "per_step_accepted": steps}
    events = (
        *said,
        {"choices": [], "metrics": {"speculative_decoding": speculation if steps else {"num_spec_steps": 0}}},
    )
    return answered(*events, DONE).reasoning[3:]


def test_rounds_that_begin_before_the_answer_are_those_of_the_reasoning() -> None:
    """The first token comes with the prompt; then rounds of 3, 2 and 4; the answer begins within one."""
    said = (spoken("a", "", 1), spoken("b", "", 4), spoken("c", "Y", 6), spoken("", "es", 10))
    assert thought_in_rounds([2, 1, 3], *said) == (2, 3)
    assert thought_in_rounds([2, 1, 3], *said[:3], spoken("", "es", 9)) == (2, 3)  # cut at the most tokens allowed
    assert thought_in_rounds([2, 1, 3], spoken("", "Yes", 10)) == (0, 0)
    assert thought_in_rounds([2, 1, 3], spoken("a", "", 10)) == (3, 6)


def test_rounds_of_the_reasoning_are_unknown_where_tokens_came_from_other_steps() -> None:
    said = (spoken("a", "", 4), spoken("", "Yes", 12))
    assert thought_in_rounds([2, 1, 3], *said) == (None, None)
    assert thought_in_rounds([2, 1, 3], spoken("a", "", 4), spoken("", "Yes", 6)) == (None, None)
    assert thought_in_rounds([], *said) == (None, None)
    assert answered(*said, DONE).reasoning[3:] == (None, None)


def test_a_stream_of_vllms_parser_is_cut_at_the_closing_token() -> None:
    """vLLM 0.32 with --reasoning-parser deepseek_r1, the reference pair with two tokens renamed to the tags, and a
    template that writes the first: token 353 closes the reasoning, and vLLM counts none of it.
    """
    reader, answer = EventReader(), Answer()
    stream = (STREAMS / "vllm-0.32-reasoning.sse").read_bytes()
    for place, event in enumerate((*reader.feed(stream), *reader.close())):
        answer.take(float(place), event)
    assert (answer.problem(), answer.completion_tokens) == (None, 72)
    tokens, reasoning = answer.token_ids or (), answer.reasoning
    assert tokens.index(353) == 41
    assert answer.text[: reasoning.chars].endswith("except KeyError:\n                pass\n\n   ")
    assert answer.text[reasoning.chars :].startswith(" _call_call_calls(self, ")
    # Counted to the chunk: the round that closed the reasoning brought one token of the answer.
    assert reasoning == (43, 174, 15.0, 14, 28)
    assert answer.speculation == {"num_spec_steps": 26, "num_draft_tokens": 78, "num_accepted_draft_tokens": 46}


def rounds_of(**speculation: object) -> Answer:
    return answered(token("x", 1), {"choices": [], "metrics": {"speculative_decoding": speculation}}, DONE)


def test_the_whole_histogram_of_rounds_is_stored_in_each_servers_form() -> None:
    listed = rounds_of(num_spec_steps=4, per_step_drafted=[3, 1, 3, 1], per_step_accepted=[0, 1, 3, 1])
    assert listed.rounds == {(1, 1): 2, (3, 0): 1, (3, 3): 1}
    by_length = [[], [0, 2], [], [1, 0, 0, 1]]
    assert rounds_of(acceptance_histogram_by_draft_length=by_length).rounds == listed.rounds
    assert rounds_of(acceptance_histogram_by_draft_length={"1": [0, 2], "3": [1, 0, 0, 1]}).rounds == listed.rounds
    assert rounds_of(num_spec_steps=0).rounds == {}
    assert rounds_of(num_spec_steps=4, acceptance_histogram=[1, 2, 0, 1]).rounds is None
    assert "unreadable" in (rounds_of(per_step_drafted=[3, 1], per_step_accepted=[0]).problem() or "")


def test_rounds_that_add_up_to_more_than_their_column_are_an_error() -> None:
    twice = {"acceptance_histogram_by_draft_length": {"1": [2**31 - 1], "01": [2**31 - 1]}}
    answer = answered({"choices": [], "metrics": {"speculative_decoding": twice}})
    assert answer.rounds is None
    assert "is not a number of tokens" in (answer.problem() or "")
    many = {"per_step_drafted": [2**31 - 1] * 2, "per_step_accepted": [2**31 - 1] * 2}
    assert answered({"choices": [], "metrics": {"speculative_decoding": many}}).steps is None


def test_halves_of_characters_before_the_answer_count_as_they_are_stored() -> None:
    thought = {"choices": [{"delta": {"reasoning": "\ud83d\udca9\ud83d"}}], "usage": usage(1)}
    answer = answered(thought, {"choices": [{"delta": {"content": "Yes"}}], "usage": usage(2)})
    assert (answer.text, answer.reasoning.chars) == ("\U0001f4a9\ufffdYes", 2)


def timed(**timings: object) -> Answer:
    """The end of a real llama.cpp's answer: its last event has no text, and the timings of the request."""
    end = {"choices": [{"text": "", "index": 0, "finish_reason": "length"}], "usage": usage(12)}
    return answered(
        token("x", None), end | {"timings": {"cache_n": 6, "prompt_n": 1, "predicted_n": 12, **timings}}, DONE
    )


def test_the_drafted_and_accepted_tokens_of_a_request_are_read_from_llama_cpps_timings() -> None:
    answer = timed(draft_n=8, draft_n_accepted=7)
    assert answer.problem() is None
    assert answer.speculation == {"num_draft_tokens": 8, "num_accepted_draft_tokens": 7}
    assert timed().speculation is None
    assert timed(draft_n=8).speculation is None
    assert (timed(draft_n="8", draft_n_accepted=7).speculation, timed(draft_n="8").problem()) == (None, None)
