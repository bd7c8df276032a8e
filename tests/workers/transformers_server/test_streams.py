"""The content of a stream, and the server's counters."""

from __future__ import annotations

import pytest

from jobs.datasets.prompt import Prompt
from lab.study import Sampling
from tests.workers.transformers_server.asks import Json, chat, complete, grown, post, stream, streamed
from tests.workers.transformers_server.servers import MODEL, K
from workers.load.client import Endpoint, RequestParams, open_session, send
from workers.load.connections import Connections
from workers.probes.engine_metrics import read_counters

pytestmark = pytest.mark.engine


def rounds(chunks: list[Json]) -> list[int]:
    """Tokens in each chunk that carried some."""
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
    grew = [after - before for before, after in zip([0, *counts], counts, strict=False)]
    return [tokens for tokens in grew if tokens]


async def test_a_stream_has_a_chunk_for_every_verification_round(assisted: str) -> None:
    *chunks, last = await stream(assisted, streamed(max_tokens=40))
    summary = last["metrics"]["speculative_decoding"]
    tokens = rounds(chunks)
    assert sum(tokens) == last["usage"]["completion_tokens"] == 40
    assert max(tokens) > 1
    assert sum(tokens) == len(tokens) + summary["num_accepted_draft_tokens"]
    assert summary["num_spec_steps"] <= len(tokens) <= summary["num_spec_steps"] + 1  # no draft for a last single token


async def test_every_round_drafts_exactly_as_many_tokens_as_asked(assisted: str) -> None:
    answer = await complete(assisted, max_tokens=40)
    summary = answer["metrics"]["speculative_decoding"]
    full, rest = divmod(summary["num_draft_tokens"], K)
    assert summary["num_spec_steps"] == full + (rest > 0), "only the last round may be cut short, by max_tokens"


async def test_without_speculation_a_chunk_is_a_token(plain: str) -> None:
    *chunks, last = await stream(plain, streamed(max_tokens=10))
    assert rounds(chunks) == [1] * 10
    assert "metrics" not in last


async def test_the_finish_reason_comes_after_all_text(plain: str) -> None:
    *chunks, finish, last = await stream(plain, streamed(max_tokens=10))
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None] * len(chunks)
    assert finish["choices"][0]["finish_reason"] == "length"
    assert finish["choices"][0]["text"] == ""
    assert last["choices"] == []
    usage = last["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


async def test_usage_is_left_out_unless_asked_for(assisted: str) -> None:
    chunks = await stream(assisted, streamed(stream_options=None))
    assert not any("usage" in chunk for chunk in chunks)
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"


async def test_a_stream_and_a_whole_answer_say_the_same(assisted: str) -> None:
    *chunks, _ = await stream(assisted, streamed(max_tokens=40))
    whole = await complete(assisted, max_tokens=40)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole["choices"][0]["text"]


async def test_counters_grow_by_the_sum_over_the_answers(speculating: str) -> None:
    answers: list[Json] = []

    async def work() -> None:
        prompt = "one two three four one two three"
        answers.extend([await complete(speculating, max_tokens=tokens, prompt=prompt) for tokens in (1, 2, 17, 40)])

    growth = await grown(speculating, work())
    summaries = [answer["metrics"]["speculative_decoding"] for answer in answers]
    spec = "vllm:spec_decode_num"
    assert growth["vllm:prompt_tokens_total"] == sum(answer["usage"]["prompt_tokens"] for answer in answers)
    assert growth["vllm:generation_tokens_total"] == 60
    assert growth[f"{spec}_drafts_total"] == sum(summary["num_spec_steps"] for summary in summaries) > 0
    assert growth[f"{spec}_draft_tokens_total"] == sum(summary["num_draft_tokens"] for summary in summaries)
    accepted = sum(summary["num_accepted_draft_tokens"] for summary in summaries)
    assert growth[f"{spec}_accepted_tokens_total"] == accepted
    for place in range(K):
        reached = sum(sum(summary["acceptance_histogram"][place + 1 :]) for summary in summaries)
        assert growth[f'{spec}_accepted_tokens_per_pos_total{{position="{place}"}}'] == reached
    assert growth['vllm:request_success_total{finished_reason="length"}'] == 4


async def test_a_server_without_speculation_has_no_counters_of_it(plain: str) -> None:
    async with open_session() as session:
        counters = await read_counters(session, plain)
    assert counters.num_drafts is None
    assert counters.generation_tokens is not None


@pytest.mark.parametrize("kind", ["completions", "chat"])
async def test_the_measuring_client_gets_a_whole_record(assisted: str, kind: str) -> None:
    endpoint = Endpoint(assisted, MODEL, "chat" if kind == "chat" else "completions", per_request_spec_metrics=True)
    params = RequestParams(Sampling(), output_tokens=32, ignore_eos=True, timeout_s=600)
    async with open_session() as session, Connections() as connections:
        record = await send(
            connections, endpoint, Prompt("p", None, "for i in range(10):\n"), params, iter(range(999)).__next__
        )
        counters = await read_counters(session, assisted)
    assert record.error is None
    assert record.chunk_tokens is not None
    assert sum(record.chunk_tokens) == record.completion_tokens == 32
    assert min(record.chunk_tokens) >= 1
    assert record.spec_accepted_tokens == 32 - len(record.chunk_tokens)
    assert counters.num_accepted_tokens_per_position is not None
    assert len(counters.num_accepted_tokens_per_position) == K


async def test_chat_writes_the_prompt_with_the_models_template(assisted: str) -> None:
    status, answer = await post(assisted, chat(), "/v1/chat/completions")
    completed = await complete(assisted, prompt=chat()["messages"][0]["content"] + "\n")
    assert status == 200
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": completed["choices"][0]["text"]}
    assert answer["usage"] == completed["usage"]


async def test_a_chat_stream_opens_with_the_role(assisted: str) -> None:
    request = {**chat(), "stream": True}
    first, second, *_ = await stream(assisted, request, "/v1/chat/completions")
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert first["object"] == "chat.completion.chunk"
    assert set(second["choices"][0]["delta"]) == {"content"}
