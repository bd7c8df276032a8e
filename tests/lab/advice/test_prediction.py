"""What theory predicts for a run, beside what the run measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.advice import prediction
from lab.advice.prediction import SpeculatedRun, predictions

RUN = SpeculatedRun(
    run_id="r1",
    workload="code",
    pattern="c1",
    concurrency=1,
    arm="draft k=3",
    method="draft_model",
    gamma=3,
    first_position=0.7,
    acceptance_length=2.4,
    speedup=1.6,
)


def test_the_length_is_predicted_from_the_first_position_alone() -> None:
    (predicted,) = predictions([replace(RUN, acceptance_length=1.9)])
    assert (predicted.alpha, predicted.predicted_length) == (0.7, prediction.tau(0.7, 3))


def test_the_draft_cost_at_the_least_concurrency_predicts_the_others() -> None:
    busy = replace(RUN, run_id="r2", concurrency=16, speedup=0.9)
    alone, crowded = predictions([RUN, busy])
    assert (alone.predicted_speedup, alone.draft_cost) == (None, None)  # it would be predicted from itself
    assert alone.implied_draft_cost == pytest.approx((2.4 / 1.6 - 1) / 3)
    assert crowded.draft_cost == alone.implied_draft_cost
    assert crowded.predicted_speedup == pytest.approx(prediction.speedup(0.7, 3, (2.4 / 1.6 - 1) / 3))
    assert crowded.implied_draft_cost == pytest.approx((2.4 / 0.9 - 1) / 3)


def test_a_cost_that_is_told_or_known_counts_for_every_run() -> None:
    (predicted,) = predictions([RUN], draft_cost=0.1)
    assert (predicted.draft_cost_from, predicted.predicted_speedup) == ("stated", prediction.speedup(0.7, 3, 0.1))
    (looked_up,) = predictions([replace(RUN, method="ngram")])
    assert (looked_up.draft_cost, looked_up.predicted_speedup) == (0.0, prediction.tau(0.7, 3))
    assert looked_up.best_gamma is None


def test_a_cost_gives_a_break_even_acceptance_and_a_best_k() -> None:
    (predicted,) = predictions([RUN], draft_cost=0.2)
    assert predicted.break_even_alpha == prediction.break_even_alpha(3, 0.2)
    assert predicted.best_gamma == prediction.best_gamma(0.7, 0.2)[0]
    assert predictions([RUN], draft_cost=1.0)[0].break_even_alpha is None


def test_other_arms_and_workloads_tell_nothing() -> None:
    busy = replace(RUN, concurrency=16)
    for other in (replace(RUN, arm="other"), replace(RUN, workload="prose")):
        assert [prediction.predicted_speedup for prediction in predictions([other, busy])] == [None, None]


@given(
    st.lists(
        st.builds(
            SpeculatedRun,
            run_id=st.just("r"),
            workload=st.sampled_from(["a", "b"]),
            pattern=st.just("p"),
            concurrency=st.integers(1, 64),
            arm=st.sampled_from(["x", "y"]),
            method=st.sampled_from(["ngram", "eagle3"]),
            gamma=st.integers(1, 8),
            first_position=st.none() | st.floats(0, 1.5),
            acceptance_length=st.none() | st.floats(1, 9),
            speedup=st.none() | st.floats(0.01, 10),
        ),
        max_size=6,
    )
)
def test_what_is_unknown_of_a_run_is_not_predicted(runs: list[SpeculatedRun]) -> None:
    predicted = predictions(runs)
    assert [of_run.run for of_run in predicted] == runs
    for of_run in predicted:
        first = of_run.run.first_position
        assert (of_run.predicted_length is None) == (first is None or first > 1)
        assert (of_run.predicted_speedup is None) == (of_run.alpha is None or of_run.draft_cost is None)
        assert of_run.predicted_speedup is None or of_run.predicted_length is not None


def test_a_prediction_says_where_its_cost_is_from() -> None:
    busy = replace(RUN, concurrency=16, speedup=0.9)
    assert [of_run.draft_cost_from for of_run in predictions([RUN, busy])] == [
        None,
        "this arm at its least concurrency",
    ]
    assert predictions([replace(RUN, method="ngram")])[0].draft_cost_from == "drafts are looked up"


def test_a_run_faster_than_its_rounds_are_long_drafts_for_nothing() -> None:
    """Noise may say so; then drafting counts as free."""
    quick = replace(RUN, speedup=3.0)
    (predicted,) = predictions([quick])
    assert predicted.implied_draft_cost == pytest.approx((2.4 / 3 - 1) / 3)
    assert (predicted.break_even_alpha, predicted.best_gamma) == (prediction.break_even_alpha(3, 0.0), None)
    busy = replace(RUN, concurrency=16)
    assert predictions([quick, busy])[1].draft_cost == 0.0
    slow = predictions([RUN])[0]
    cost = (2.4 / 1.6 - 1) / 3
    assert slow.break_even_alpha == prediction.break_even_alpha(3, cost)
    assert slow.best_gamma == prediction.best_gamma(0.7, cost)[0]


@pytest.mark.parametrize(("speedup", "gamma"), [(1.6, 0), (0.0, 3), (-1.0, 3)])
def test_without_drafts_or_without_a_speed_no_cost_is_implied(speedup: float, gamma: int) -> None:
    assert prediction.implied_draft_cost(speedup, 2.4, gamma) is None
