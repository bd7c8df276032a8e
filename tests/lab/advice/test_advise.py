from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.advice.advise import Advice, Failed, Figures, Measured, Outcome, advise

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
    own=Figures(gpu_memory_bytes=70e9),
)
OUTCOMES: tuple[Outcome, ...] = ("faster", "slower", "no difference", "inconclusive")


def only(*measured: Measured) -> Advice:
    return only_of(measured)


def only_of(measured: Sequence[Measured], failed: Sequence[Failed] = ()) -> Advice:
    (advice,) = advise(measured, failed)
    return advice


def text(advice: Advice) -> str:
    return "\n".join(line.text for line in advice.reasons)


def test_the_fastest_of_those_that_are_surely_faster_is_enabled() -> None:
    luckier = replace(GOOD, arm="unsure", speedup=2.5, low=0.9, high=4.0, outcome="inconclusive")
    slower = replace(GOOD, arm="ngram", method="ngram", speedup=1.2, low=1.1, high=1.3)
    advice = only(luckier, slower, GOOD)
    assert (advice.action, advice.arm, advice.gamma) == ("enable", "draft k=3", 3)
    assert "1.90× [1.80, 2.00] of its throughput" in text(advice)
    assert advice.reasons[0].run_ids == ("r1", "r2")


def test_what_costs_is_not_enabled_and_every_arm_says_why() -> None:
    slow = replace(GOOD, concurrency=64, speedup=0.8, low=0.7, high=0.9, outcome="slower")
    advice = only(slow, replace(slow, arm="other", speedup=1.0, outcome="no difference"))
    assert (advice.action, advice.arm, advice.gamma) == ("do not enable", None, None)
    assert "draft k=3 is slower" in text(advice)
    assert "other (k = 3) is no different" in text(advice)
    assert "concurrency 64, over 32: likely counterproductive" in text(advice)


def test_without_a_gpu_no_rule_of_thumb_is_given() -> None:
    measured_on_a_cpu = replace(GOOD, own=Figures(), acceptance_rate=0.4)
    assert "rule of thumb" not in {line.basis for line in only(measured_on_a_cpu).reasons}


Told = tuple[str, str, tuple[str, ...]]
OURS, THEIRS, NOBODYS = ("r1", "r2"), ("r7", "r8"), ()
HAPPY = replace(
    GOOD,
    speedup=1.3,
    low=1.2,
    high=1.4,
    output_tokens=51.0,
    pattern="c1",
    own=Figures(6.1, 70e9, 0.9, "vllm 0.32.0"),
    baseline=Figures(11.5, 66e9, 0.6, "vllm 0.32.0"),
)
BROKEN = Failed("reference/code", 1, "other", "eagle3", 3, "ValueError: not\n supported", THEIRS, "c1")
OPEN = replace(
    GOOD,
    concurrency=33,
    speedup=1.1,
    low=0.9,
    high=1.3,
    outcome="inconclusive",
    acceptance_rate=0.29,
    acceptance_length=1.5,
    output_tokens=19.0,
    method="ngram",
)
SLOW = replace(
    GOOD,
    concurrency=5,
    speedup=0.8,
    low=0.7,
    high=0.9,
    outcome="slower",
    acceptance_rate=None,
    output_tokens=None,
    acceptance_length=None,
    own=Figures(gpu_memory_bytes=66e9, kv_cache_usage=0.9),
    baseline=Figures(gpu_memory_bytes=70e9),
)
ODD = replace(SLOW, arm="odd", gamma=2, speedup=None, outcome="no difference", acceptance_rate=0.2)
WHOLE: tuple[tuple[tuple[Measured, ...], tuple[Failed, ...], tuple[object, ...], tuple[Told, ...]], ...] = (
    (
        (HAPPY,),
        (BROKEN,),
        ("reference/code", 1, "enable", "draft k=3", 3, "c1"),
        (
            (
                "draft k=3 is faster than the baseline: 1.30× [1.20, 1.40] of its throughput",
                "measured",
                OURS,
            ),
            (
                (
                    "2.62 tokens per round cap the speed-up at 2.62×; drafting and verifying cost the rest, about "
                    "0.34 target steps per drafted token"
                ),
                "expected",
                OURS,
            ),
            (
                "54 % of draft k=3's drafted tokens are accepted, over 50 %: try 4 to 5 drafted tokens",
                "rule of thumb",
                OURS,
            ),
            (
                (
                    "concurrency 1 is interactive use (up to 4), where the time per token is noticed: a token takes "
                    "draft k=3 6.1 ms and the baseline 11.5 ms (medians)"
                ),
                "rule of thumb",
                OURS,
            ),
            ("concurrency 1, under 10: a strong candidate", "rule of thumb", NOBODYS),
            ("answers of 51 tokens, over 50: long enough", "rule of thumb", NOBODYS),
            ("acceptance of 0.72 a token, over 0.65: meaningful gains", "rule of thumb", NOBODYS),
            (
                (
                    "draft k=3 had 3.7 GiB more GPU memory in use than the baseline; draft k=3's KV cache was "
                    "at most 90 % full, the baseline's 60 %; 2 to 8 GB are usual for a draft"
                ),
                "measured",
                OURS,
            ),
            ("vllm 0.32.0 ran draft_model with k = 3", "measured", OURS),
            ("other (eagle3, k = 3) failed in 2 runs: ValueError: not supported", "measured", THEIRS),
        ),
    ),
    (
        (OPEN,),
        (),
        ("reference/code", 33, "measure this next", "draft k=3", 3, ""),
        (
            (
                ("draft k=3 cannot be told from the baseline yet: 1.10× [0.90, 1.30] of its throughput"),
                "measured",
                OURS,
            ),
            (
                (
                    "1.50 tokens per round cap the speed-up at 1.50×; drafting and verifying cost the rest, about "
                    "0.12 target steps per drafted token"
                ),
                "expected",
                OURS,
            ),
            (
                (
                    "29 % of draft k=3's drafted tokens are accepted, under 30 %: drop to 2 drafted tokens or change "
                    "the draft model"
                ),
                "rule of thumb",
                OURS,
            ),
            ("concurrency 33, over 32: likely counterproductive", "rule of thumb", NOBODYS),
            ("answers of 19 tokens, under 20: marginal", "rule of thumb", NOBODYS),
            ("acceptance of 0.34 a token, under 0.55: seldom worth it", "rule of thumb", NOBODYS),
            ("draft k=3 drafts without a model, so it needs no memory for one", "expected", OURS),
            ("the engine ran ngram with k = 3", "measured", OURS),
        ),
    ),
    (
        (SLOW, ODD),
        (),
        ("reference/code", 5, "do not enable", None, None, ""),
        (
            (
                "draft k=3 is slower than the baseline: 0.80× [0.70, 0.90] of its throughput",
                "measured",
                OURS,
            ),
            ("odd (k = 2) is not comparable with the baseline", "measured", OURS),
            ("20 % of odd's drafted tokens are accepted, under 30 %: change the draft model", "rule of thumb", OURS),
            ("concurrency 5, under 10: a strong candidate", "rule of thumb", NOBODYS),
            (
                "draft k=3 had 3.7 GiB less GPU memory in use than the baseline; 2 to 8 GB are usual for a draft",
                "measured",
                OURS,
            ),
            ("the engine ran draft_model with k = 3", "measured", OURS),
        ),
    ),
)


@pytest.mark.parametrize(("measured", "failed", "verdict", "reasons"), WHOLE, ids=[str(case[2][2]) for case in WHOLE])
def test_advice_reads_as_a_whole(
    measured: tuple[Measured, ...], failed: tuple[Failed, ...], verdict: tuple[object, ...], reasons: tuple[Told, ...]
) -> None:
    advice = only_of(measured, failed)
    assert (
        advice.workload, advice.concurrency, advice.action, advice.arm, advice.gamma, advice.pattern
    ) == verdict  # fmt: skip
    assert tuple((line.text, line.basis, line.run_ids) for line in advice.reasons) == reasons


FELT: dict[str, object] = {"own": Figures(tpot_ms=5.0), "baseline": Figures(tpot_ms=6.0)}
#: What changes in the healthy case, a part of the text, and whether it stands there: at each threshold and beside it.
EDGES: tuple[tuple[dict[str, object], str, bool], ...] = (
    (FELT | {"concurrency": 4}, "is interactive use", True),
    (FELT | {"concurrency": 5}, "interactive use", False),
    ({"concurrency": 9}, "a strong candidate", True),
    ({"concurrency": 10}, "a strong candidate", False),
    ({"concurrency": 32}, "likely counterproductive", False),
    ({"concurrency": 33}, "likely counterproductive", True),
    ({"output_tokens": 19.9}, "marginal", True),
    ({"output_tokens": 20.0}, "marginal", False),
    ({"output_tokens": 50.0}, "long enough", False),
    ({"output_tokens": 50.1}, "long enough", True),
    ({"gamma": 1, "acceptance_length": 1.54}, "seldom worth it", True),
    ({"gamma": 1, "acceptance_length": 1.56}, "seldom worth it", False),
    ({"gamma": 1, "acceptance_length": 1.64}, "meaningful gains", False),
    ({"gamma": 1, "acceptance_length": 1.66}, "meaningful gains", True),
    ({"acceptance_rate": 0.5}, "try 4 to 5", False),
    ({"acceptance_rate": 0.501}, "try 4 to 5", True),
    ({"acceptance_rate": 0.501, "gamma": 4}, "try 4 to 5", False),
    ({"acceptance_rate": 0.3}, "change the draft model", False),
    ({"acceptance_rate": 0.299}, "drop to 2 drafted tokens or change", True),
    ({"acceptance_rate": 0.299, "gamma": 2}, "drop to 2 drafted tokens or change", False),
    ({"speedup": 1.9649}, "drafting and verifying cost the rest", True),  # 0.75 of what 2.62 tokens a round allow
    ({"speedup": 1.9651}, "drafting and verifying cost the rest", False),
    ({"own": Figures(gpu_memory_bytes=0.11 * 2**30), "baseline": Figures(gpu_memory_bytes=0.0)}, "0.1 GiB more", True),
    ({"own": Figures(gpu_memory_bytes=0.0), "baseline": Figures(gpu_memory_bytes=0.11 * 2**30)}, "0.1 GiB less", True),
    ({"own": Figures(gpu_memory_bytes=0.09 * 2**30), "baseline": Figures(gpu_memory_bytes=0.0)}, "as much", True),
    ({"own": Figures(), "baseline": Figures(gpu_memory_bytes=1.0)}, "memory", False),
    ({"own": Figures(tpot_ms=5.0), "baseline": Figures(tpot_ms=0.0)}, "interactive", False),
    ({"own": Figures(), "baseline": Figures(tpot_ms=5.0)}, "interactive", False),
    ({"low": None}, "× [", False),
    ({"high": None}, "× [", False),
    ({"acceptance_length": None}, "tokens a round would allow", False),
    ({"speedup": None}, "tokens a round would allow", False),
)


@pytest.mark.parametrize(("changes", "part", "is_given"), EDGES)
def test_a_rule_begins_and_ends_at_its_threshold(changes: dict[str, object], part: str, is_given: bool) -> None:  # noqa: FBT001
    assert (part in text(only(replace(GOOD, **changes)))) is is_given  # type: ignore[arg-type]  # names of its fields


def test_equal_memory_and_a_long_error_read_as_a_whole() -> None:
    same = Figures(gpu_memory_bytes=70e9)
    assert (
        "draft k=3 had as much GPU memory in use as the baseline: an engine that reserves all of it at start-up takes "
        "the draft's part from the KV cache; 2 to 8 GB are usual for a draft"
    ) in [line.text for line in only(replace(GOOD, own=same, baseline=same)).reasons]
    (reason,) = only_of([], [replace(BROKEN, error="x" * 301, run_ids=("r7",))]).reasons
    assert reason.text == f"other (eagle3, k = 3) failed in 1 run: {'x' * 300}"


def test_places_stand_in_order_and_each_has_its_own_arms_and_failures() -> None:
    later = replace(GOOD, workload="z")
    swept = replace(GOOD, pattern="sweep")
    advice = advise([later, swept, GOOD], [replace(BROKEN, pattern="sweep"), replace(BROKEN, workload="only failed")])
    assert [(advised.workload, advised.pattern, advised.action) for advised in advice] == [
        ("only failed", "c1", "do not enable"),
        ("reference/code", "", "enable"),
        ("reference/code", "sweep", "enable"),
        ("z", "", "enable"),
    ]
    assert ["failed" in text(advised) for advised in advice] == [True, False, True, False]


def test_of_several_the_fastest_is_named_and_an_unknown_speed_is_none() -> None:
    unknown = replace(GOOD, arm="unknown", speedup=None)
    half = replace(GOOD, arm="half", speedup=0.5)
    assert only(unknown, half, GOOD).arm == "draft k=3"
    assert only(unknown, half).arm == "half"
    waiting = [replace(cell, outcome="inconclusive") for cell in (unknown, half, GOOD)]
    slow = replace(GOOD, arm="slow", outcome="slower", speedup=3.0)
    assert only_of([slow, *waiting]).arm == "draft k=3"
    slower = [replace(cell, outcome="slower", concurrency=5) for cell in (unknown, half, GOOD)]
    assert "the engine ran draft_model" in text(only_of(slower))


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
    places = {(cell.workload, cell.concurrency) for cell in measured}
    verdicts = advise(measured)
    assert sorted(places) == [(advice.workload, advice.concurrency) for advice in verdicts]
    for advice in verdicts:
        there = [
            cell.outcome
            for cell in measured
            if (cell.workload, cell.concurrency) == (advice.workload, advice.concurrency)
        ]
        assert (advice.action == "enable") == ("faster" in there)
        assert advice.reasons
