"""The rounds of a run that was measured in several windows, and the numbers of the run as a whole."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lab.metrics.measure import measure
from lab.metrics.records import RequestRecord, RunWindow, TelemetrySample
from lab.metrics.request_table import RequestTable
from lab.metrics.rounds import rounds_of
from lab.study import Load
from tests.lab.metrics.test_measure import answered
from tests.warehouse.generated import request_records
from tests.warehouse.runs import counters, run_record

TWO = Load(max_concurrency=2, num_prompts=8)


def window(start_s: float, end_s: float, **changes: Any) -> RunWindow:
    return RunWindow(started_at="2026-11-26T10:00:00+00:00", start_s=start_s, end_s=end_s, **changes)


#: Each window is steady for 2 s: from when its first answers have ended until a stream has no more to send.
WINDOWS = (window(0.0, 4.0), window(4.0, 9.0))
REQUESTS = (
    *(answered(begins_s, begins_s + 2.0, round=0) for begins_s in (0.0, 0.0, 2.0, 2.0)),
    *(answered(4.0, 6.0, round=1) for _ in range(2)),
    answered(6.0, 8.0, round=1),
    answered(6.0, 9.0, 6, round=1),
)


def test_requests_per_second_are_by_the_time_of_all_windows() -> None:
    values = measure(run_record(load=TWO, windows=WINDOWS), RequestTable.of(REQUESTS))
    assert (values["duration_s"], values["request_per_s"]) == (9.0, 8 / 9)


def test_the_steady_throughput_leaves_out_the_first_answers_and_the_tail_of_each_window() -> None:
    """Until 8 s, when the last request but one ends, 4 of the 6 tokens of the last have come."""
    values = measure(run_record(load=TWO, windows=WINDOWS), RequestTable.of(REQUESTS))
    assert (values["steady_window_s"], values["steady_output_tok_per_s"]) == (4.0, 16 / 4)
    assert values["output_tok_per_s"] == 16 / 4


def test_a_window_that_was_never_full_has_no_steady_throughput_and_leaves_the_others_theirs() -> None:
    run = run_record(load=TWO, windows=(*WINDOWS, window(9.0, 10.0)))
    requests = RequestTable.of((*REQUESTS, answered(9.0, 10.0, round=2)))
    assert measure(run, requests)["steady_output_tok_per_s"] == 16 / 4
    steady = [each.data.value("steady_output_tok_per_s") for each in rounds_of(run, requests)]
    assert steady == [4.0, 4.0, None]


def test_each_round_has_its_own_numbers() -> None:
    rounds = rounds_of(run_record(load=TWO, windows=WINDOWS), RequestTable.of(REQUESTS))
    assert [each.number for each in rounds] == [0, 1]
    assert [each.data.value("duration_s") for each in rounds] == [4.0, 5.0]
    assert [each.data.value("output_tok_per_s") for each in rounds] == [4.0, 4.0]
    assert [each.data.value("ttft_mean_ms") for each in rounds] == [500.0, 500.0]


def test_a_run_of_one_window_has_no_rounds() -> None:
    assert rounds_of(run_record(), RequestTable.of([answered(0.0, 1.0)])) == []


def test_acceptance_of_a_round_comes_from_what_the_counters_grew_by_in_it() -> None:
    grown = [counters(num_drafts=10.0, num_accepted_tokens=accepted) for accepted in (5.0, 20.0)]
    windows = tuple(
        before.model_copy(update={"counted": counted}) for before, counted in zip(WINDOWS, grown, strict=True)
    )
    rounds = rounds_of(run_record(load=TWO, windows=windows), RequestTable.of(REQUESTS))
    assert [each.data.value("acceptance_length") for each in rounds] == [1.5, 3.0]
    unknown = rounds_of(run_record(load=TWO, windows=WINDOWS), RequestTable.of(REQUESTS))
    assert [each.data.value("acceptance_length") for each in unknown] == [None, None]


def test_energy_and_means_of_a_round_are_of_its_own_seconds() -> None:
    samples = [TelemetrySample(t_s, 0.1, 2, 0, 0, gpu_power_w=power) for t_s, power in ((4.0, 100.0), (9.0, 300.0))]
    run = run_record(load=TWO, windows=WINDOWS)
    rounds = rounds_of(run, RequestTable.of(REQUESTS), samples)
    assert [each.data.value("energy_j") for each in rounds] == [400.0, 1500.0]
    assert measure(run, RequestTable.of(REQUESTS), samples)["gpu_power_mean_w"] == (4 * 100.0 + 5 * 300.0) / 9


_TIMES = ("intended_send_s", "sent_s", "first_token_s", "end_s", "first_answer_s")


def moved(request: RequestRecord, by_s: float, number: int | None) -> RequestRecord:
    """Return the request in another place of the run's clock, its times in 1024ths, which a float can move exactly."""
    assert {*_TIMES, "chunk_s"} == {field.name for field in fields(request) if field.name.endswith("_s")}

    def at(t_s: float) -> float:
        return round(t_s * 1024) / 1024 + by_s

    times: dict[str, Any] = {name: None if (t_s := getattr(request, name)) is None else at(t_s) for name in _TIMES}
    return replace(request, round=number, chunk_s=tuple(map(at, request.chunk_s)), **times)


@settings(max_examples=40)
@given(st.lists(request_records(), min_size=1, max_size=6))
def test_a_round_has_the_numbers_of_a_run_of_that_window_alone(requests: list[RequestRecord]) -> None:
    alone = measure(run_record(load=TWO), RequestTable.of([moved(request, 0.0, None) for request in requests]))
    first = answered(0.0, 64.0, round=0)
    run = run_record(load=TWO, windows=(window(0.0, 64.0), window(64.0, 2e6)))
    data = rounds_of(run, RequestTable.of([first, *(moved(request, 64.0, 1) for request in requests)]))[1].data
    for of_the_steady_part in ("output_tok_per_s", "steady_output_tok_per_s", "steady_window_s"):
        del alone[of_the_steady_part]
    assert {name: data.value(name) for name in alone} == alone
