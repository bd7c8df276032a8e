from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.advice import Advice, Failed, Figures, Measured, Outcome, advise

GOOD = Measured(
    workload="reference/code",
    concurrency=1,
    arm="draft k=3",
    method="draft_model",
    gamma=3,
    speedup=1.9,
    low=1.8,
    high=2.0,
    outcome="faster",
    acceptance_rate=0.54,
    acceptance_length=2.62,
    output_tokens=64.0,
    run_ids=("r1", "r2"),
)
OUTCOMES: tuple[Outcome, ...] = ("faster", "slower", "no difference", "not enough data")


def only(*measured: Measured) -> Advice:
    return only_of(measured)


def only_of(measured: Sequence[Measured], failed: Sequence[Failed] = ()) -> Advice:
    (advice,) = advise(measured, failed)
    return advice


def text(advice: Advice) -> str:
    return "\n".join(line.text for line in advice.reasons)


def test_the_fastest_of_those_that_are_surely_faster_is_enabled() -> None:
    luckier = replace(GOOD, arm="unsure", speedup=2.5, low=0.9, high=4.0, outcome="not enough data")
    slower = replace(GOOD, arm="ngram", method="ngram", speedup=1.2, low=1.1, high=1.3)
    advice = only(luckier, slower, GOOD)
    assert (advice.action, advice.arm, advice.gamma) == ("enable", "draft k=3", 3)
    assert "1.90 times its throughput (95 % interval 1.80 to 2.00)" in text(advice)
    assert advice.reasons[0].run_ids == ("r1", "r2")


def test_where_nothing_is_sure_the_most_promising_is_measured_next() -> None:
    unsure = replace(GOOD, speedup=1.1, low=0.9, high=1.3, outcome="not enough data", more_repeats=4)
    advice = only(unsure, replace(GOOD, arm="slow", outcome="slower", speedup=0.8))
    assert (advice.action, advice.arm) == ("measure this next", "draft k=3")
    assert "about 4 more repeats would decide" in text(advice)


def test_what_costs_is_not_enabled_and_every_arm_says_why() -> None:
    slow = replace(GOOD, concurrency=64, speedup=0.8, low=0.7, high=0.9, outcome="slower")
    advice = only(slow, replace(slow, arm="other", speedup=1.0, outcome="no difference"))
    assert (advice.action, advice.arm, advice.gamma) == ("do not enable", None, None)
    assert "draft k=3 (k = 3) is slower" in text(advice)
    assert "other (k = 3) is no different" in text(advice)
    assert "concurrency 64, over 32: likely counterproductive" in text(advice)


@pytest.mark.parametrize(
    ("rate", "gamma", "said"),
    [
        (0.54, 3, "over 50%: try 4 to 5 drafted tokens"),
        (0.29, 3, "drop to 2 drafted tokens"),
        (0.29, 2, "under 30%: change the draft model"),
    ],
)
def test_the_tuning_procedure_is_followed(rate: float, gamma: int, said: str) -> None:
    assert said in text(only(replace(GOOD, acceptance_rate=rate, gamma=gamma, acceptance_length=None)))


@pytest.mark.parametrize(("rate", "gamma"), [(0.4, 3), (0.9, 5), (None, 3)])
def test_where_the_procedure_has_nothing_to_say_it_says_nothing(rate: float | None, gamma: int) -> None:
    advice = only(replace(GOOD, acceptance_rate=rate, gamma=gamma))
    assert "try 4" not in text(advice)
    assert "change the draft" not in text(advice)


def test_a_speedup_far_below_its_acceptance_says_where_the_rest_went() -> None:
    assert "as if each drafted token cost" in text(only(replace(GOOD, speedup=1.3)))
    assert "as if each drafted token cost" not in text(only(replace(GOOD, speedup=2.5)))


def test_rules_of_the_checklist_are_marked_as_such() -> None:
    advice = only(replace(GOOD, output_tokens=12.0, acceptance_length=1.5))
    rules = {line.text for line in advice.reasons if line.basis == "rule of thumb" and not line.run_ids}
    assert rules == {
        "concurrency 1, under 10: a strong candidate",
        "answers of 12 tokens, under 20: marginal",
        "acceptance of 0.34 a token, under 0.55: seldom worth it",
        "the draft's memory was not measured, because no GPU reported it: expect 2 to 8 GB",
    }


def test_interactive_use_is_judged_by_the_time_per_token_and_other_use_is_not() -> None:
    felt = replace(GOOD, own=Figures(tpot_ms=6.1), baseline=Figures(tpot_ms=11.5))
    assert "where the time per token is noticed: a token takes draft k=3 6.1 ms and the baseline 11.5 ms" in text(
        only(felt)
    )
    assert "the time per token was not measured" in text(only(GOOD))
    assert "concurrency 5 is not interactive use (up to 4)" in text(only(replace(felt, concurrency=5)))


@pytest.mark.parametrize(
    ("ours", "theirs", "said"),
    [
        (Figures(gpu_memory_bytes=70e9), Figures(gpu_memory_bytes=66e9), "3.7 GiB more GPU memory in use"),
        (
            Figures(gpu_memory_bytes=70e9, kv_cache_usage=0.9),
            Figures(gpu_memory_bytes=70e9, kv_cache_usage=0.6),
            "from the KV cache; draft k=3's KV cache was at most 90% full, the baseline's 60%; 2 to 8 GB are usual",
        ),
        (Figures(gpu_memory_bytes=70e9), Figures(), "was not measured"),
    ],
)
def test_the_drafts_memory_is_told_by_what_both_arms_had_in_use(ours: Figures, theirs: Figures, said: str) -> None:
    assert said in text(only(replace(GOOD, own=ours, baseline=theirs)))


def test_an_arm_that_looks_its_drafts_up_needs_no_memory_for_a_model() -> None:
    assert "drafts without a model" in text(only(replace(GOOD, method="ngram")))


def test_engine_support_is_told_by_what_ran_and_by_what_failed_in_the_engines_words() -> None:
    failed = Failed("reference/code", 1, "other", "eagle3", 3, "ValueError: not\n supported", ("r7", "r8"))
    advice = only_of([replace(GOOD, own=Figures(engine="vllm 0.32.0"))], [failed])
    assert advice.action == "enable"
    assert "vllm 0.32.0 ran draft_model with k = 3" in text(advice)
    assert advice.reasons[-1].text == "other (eagle3, k = 3) failed in 2 runs: ValueError: not supported"
    assert advice.reasons[-1].run_ids == ("r7", "r8")


def test_where_every_speculating_arm_failed_nothing_is_enabled_and_the_engine_says_why() -> None:
    advice = only_of([], [Failed("reference/code", 1, "other", "eagle3", 3, "no kernel", ("r7",))])
    assert (advice.action, advice.arm) == ("do not enable", None)
    assert text(advice) == "other (eagle3, k = 3) failed in 1 run: no kernel"


@given(
    st.lists(
        st.builds(
            Measured,
            workload=st.sampled_from(["a", "b"]),
            concurrency=st.integers(1, 300),
            arm=st.just("arm"),
            method=st.just("ngram"),
            gamma=st.integers(1, 8),
            speedup=st.none() | st.floats(0.01, 10),
            low=st.none() | st.floats(0.01, 10),
            high=st.none() | st.floats(0.01, 10),
            outcome=st.sampled_from(OUTCOMES),
            acceptance_rate=st.none() | st.floats(0, 1),
            acceptance_length=st.none() | st.floats(0, 12),
            output_tokens=st.none() | st.floats(0, 1e6),
        ),
        max_size=8,
    )
)
def test_each_place_has_one_verdict_and_enabling_needs_a_faster_arm(measured: list[Measured]) -> None:
    places = {(one.workload, one.concurrency) for one in measured}
    found = advise(measured)
    assert sorted(places) == [(advice.workload, advice.concurrency) for advice in found]
    for advice in found:
        there = [
            one.outcome for one in measured if (one.workload, one.concurrency) == (advice.workload, advice.concurrency)
        ]
        assert (advice.action == "enable") == ("faster" in there)
        assert advice.reasons
