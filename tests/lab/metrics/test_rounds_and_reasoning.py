"""Figures of the histogram of rounds, and of the answer apart from its reasoning."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from lab.metrics.measure import measure
from lab.metrics.records import RunRecord
from lab.metrics.request_table import RequestTable
from lab.study import Arm, Speculation, Workload
from tests.warehouse.runs import counters, request, run_record

ROUND = st.integers(0, 6).flatmap(lambda drafted: st.tuples(st.just(drafted), st.integers(0, drafted)))


def test_positions_stay_right_where_drafts_differ_in_length() -> None:
    """Of 10 rounds 6 drafted one token, all accepted; 4 drafted two, of which 2 accepted both and 2 none."""
    one = request(rounds_drafted=(1, 2), rounds_accepted=(1, 0), rounds_count=(6, 2))
    other = request(index=1, rounds_drafted=(2,), rounds_accepted=(2,), rounds_count=(2,))
    metrics = measure(run_record(), RequestTable.of((one, other)))
    assert metrics["rounds_by_draft_length"] == pytest.approx((0.0, 0.6, 0.4))
    assert metrics["acceptance_of_drafted_position"] == pytest.approx((0.8, 0.5))


@given(st.lists(st.lists(ROUND, max_size=12), min_size=1, max_size=4))
def test_the_histograms_sums_are_the_runs_counters(rounds: list[list[tuple[int, int]]]) -> None:
    requests = [
        request(
            index=place,
            rounds_drafted=tuple(drafted for drafted, _ in listed),
            rounds_accepted=tuple(accepted for _, accepted in listed),
            rounds_count=(1,) * len(listed),
        )
        for place, listed in enumerate(rounds)
    ]
    every = [each for listed in rounds for each in listed]
    drafted, accepted = sum(drafted for drafted, _ in every), sum(accepted for _, accepted in every)
    after = counters(num_drafts=float(len(every)), num_draft_tokens=float(drafted), num_accepted_tokens=float(accepted))
    metrics = measure(run_record(counters_before=counters(), counters_after=after), RequestTable.of(requests))
    lengths, positions = metrics["rounds_by_draft_length"], metrics["acceptance_of_drafted_position"]
    if not every:
        assert (lengths, positions) == (None, None)
        return
    assert isinstance(lengths, tuple)
    assert sum(lengths) == pytest.approx(1.0)
    mean = metrics["draft_length_mean"]
    assert sum(place * share for place, share in enumerate(lengths)) == pytest.approx(mean)
    assert isinstance(positions, tuple | None)
    reaching = [sum(lengths[place:]) * len(every) for place in range(1, len(lengths))]
    summed = [rate * n for rate, n in zip(positions or (), reaching, strict=True)]
    assert sum(summed) == pytest.approx(accepted)
    assert (metrics["num_wasted_tokens"], metrics["num_verified_tokens"]) == (drafted - accepted, drafted + len(every))


def test_one_request_without_its_histogram_leaves_the_runs_unknown() -> None:
    known = request(rounds_drafted=(1,), rounds_accepted=(1,), rounds_count=(6,))
    metrics = measure(run_record(), RequestTable.of((known, request(index=1))))
    assert (metrics["rounds_by_draft_length"], metrics["acceptance_of_drafted_position"]) == (None, None)


def test_the_answer_is_counted_and_timed_apart_from_the_reasoning() -> None:
    thinking = request(reasoning_tokens=3, first_answer_s=0.5)
    plain = request(index=1, reasoning_tokens=0, first_answer_s=0.2)
    metrics = measure(run_record(), RequestTable.of((thinking, plain)))
    assert (metrics["reasoning_tokens"], metrics["answer_tokens"]) == (3, 5)
    assert metrics["answer_tok_per_s"] == pytest.approx(5 / 0.6)
    assert metrics["ttfa_p50_ms"] == pytest.approx((400 + 100) / 2)
    apart = measure(run_record(), RequestTable.of((request(reasoning_tokens=5),)))  # counted beside the output's 4
    assert (apart["reasoning_tokens"], apart["answer_tokens"], apart["answer_tok_per_s"]) == (5, None, None)
    unknown = measure(run_record(), RequestTable.of((thinking, request(index=1))))
    assert [unknown[name] for name in ("reasoning_tokens", "answer_tokens", "ttfa_p50_ms")] == [None] * 3


def constrained(
    *, method: str = "draft_model", options: dict[str, JsonValue] | None = None, **grown: float
) -> RunRecord:
    """A run of 12 answers of 48 tokens with a grammar, as vLLM 0.32's CPU build counted them."""
    counted = {"num_drafts": 99.0, "num_draft_tokens": 194.0, "num_accepted_tokens": 129.0, "generation_tokens": 576.0}
    model = "reference-draft" if method == "draft_model" else None
    speculation = Speculation(method=method, model=model, num_speculative_tokens=3, options=options or {})
    return run_record(
        arm=Arm(name="draft", speculation=speculation),
        workload=Workload(dataset="json_schema", output_tokens=48),
        counters_before=counters(),
        counters_after=counters(**counted | grown),
    )


ANSWERED = RequestTable.of([request(index=place) for place in range(12)])


def test_drafted_tokens_that_a_grammar_forbade_are_counted_apart() -> None:
    """435 steps of 3 drafted tokens, of which the server counts 194."""
    assert measure(constrained(), ANSWERED)["num_forbidden_draft_tokens"] == 3 * 435 - 194
    free = constrained(num_drafts=225.0, num_draft_tokens=675.0, num_accepted_tokens=353.0)
    assert measure(free, ANSWERED)["num_forbidden_draft_tokens"] == 0


def test_forbidden_drafts_need_a_grammar_and_a_draft_at_every_step() -> None:
    scheduled = constrained(options={"num_speculative_tokens_per_batch_size": [[1, 512, 3]]})
    without = constrained().model_copy(update={"workload": Workload(output_tokens=48)})
    plain = constrained().model_copy(update={"arm": Arm(name="plain")})
    uncounted = constrained().model_copy(update={"counters_after": None})
    for run in (scheduled, constrained(method="ngram"), without, plain, uncounted):
        assert measure(run, ANSWERED)["num_forbidden_draft_tokens"] is None
    failed = RequestTable.of([request(), request(index=1, error="gone")])
    assert measure(constrained(), failed)["num_forbidden_draft_tokens"] is None


def test_acceptance_lengths_of_reasoning_and_answer_pool_the_rounds_of_all_requests() -> None:
    """Of 6 rounds that accepted 11 tokens, 3 with 8 of them were reasoning; one request did not think."""
    thinking = request(
        reasoning_tokens=3, spec_drafts=4, spec_accepted_tokens=9, reasoning_rounds=3, reasoning_accepted_tokens=8
    )
    plain = request(
        index=1,
        reasoning_tokens=0,
        spec_drafts=2,
        spec_accepted_tokens=2,
        reasoning_rounds=0,
        reasoning_accepted_tokens=0,
    )
    metrics = measure(run_record(), RequestTable.of((thinking, plain)))
    assert metrics["reasoning_acceptance_length"] == pytest.approx(1 + 8 / 3)
    assert metrics["answer_acceptance_length"] == pytest.approx(1 + 3 / 3)
    names = ("reasoning_acceptance_length", "answer_acceptance_length")
    unknown = request(index=1, reasoning_tokens=1, spec_drafts=2, spec_accepted_tokens=2)
    for requests in ((plain,), (thinking, unknown)):
        without = measure(run_record(), RequestTable.of(requests))
        assert [without[name] for name in names] == [None, None]
    all_thought = measure(run_record(), RequestTable.of((replace(thinking, spec_drafts=3, spec_accepted_tokens=8),)))
    assert [all_thought[name] for name in names] == [pytest.approx(1 + 8 / 3), None]
    made_up = measure(run_record(), RequestTable.of((replace(thinking, category="no_text"),)))
    assert [made_up[name] for name in names] == [None, None]


def test_tokens_of_a_chunk_are_told_apart_for_reasoning_and_answer() -> None:
    """After a first token at 0.2 s: reasoning in chunks of 4 and 2 tokens, then an answer in chunks of 1 and 1."""
    moments, tokens = (0.2, 0.3, 0.4, 0.5, 0.6), (1, 4, 2, 1, 1)
    thinking = request(
        chunk_s=moments, chunk_tokens=tokens, completion_tokens=9, reasoning_tokens=7, first_answer_s=0.5, end_s=0.6
    )
    metrics = measure(run_record(), RequestTable.of((thinking, thinking)))
    assert (metrics["reasoning_tokens_per_chunk"], metrics["answer_tokens_per_chunk"]) == (3.0, 1.0)
    plain = request(reasoning_tokens=0, first_answer_s=0.2)
    assert measure(run_record(), RequestTable.of((plain,)))["answer_tokens_per_chunk"] is None
    endless = request(chunk_s=moments, chunk_tokens=tokens, completion_tokens=9, reasoning_tokens=9, end_s=0.6)
    unanswered = measure(run_record(), RequestTable.of((endless,)))
    assert (unanswered["reasoning_tokens_per_chunk"], unanswered["answer_tokens_per_chunk"]) == (2.0, None)
