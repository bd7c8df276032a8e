"""The answer of a study stands on verdicts: tables of cases, and what holds for every table."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.advice.answer import Answer, JudgedPair, OverAll, answer
from lab.advice.answer_text import READING, STRICT, interval, sentences
from lab.comparison.effect import Interval
from lab.comparison.verdict import UNKNOWN, Control, Word
from lab.metrics.catalogue import BY_NAME
from tests.lab.advice.judged_pairs import judged

WORDS: tuple[Word, ...] = ("faster", "slower", "no difference", "inconclusive")


def of(*pairs: JudgedPair, **changes: object) -> Answer:
    return answer(pairs, **{"metric": "output_tok_per_s", "baseline": "no draft", **changes})  # type: ignore[arg-type]


def lines_of(*pairs: JudgedPair, **changes: object) -> list[str]:
    return sentences(of(*pairs, **changes)).lines


FAST, SLOW = (1.42, 1.31, 1.54), (0.9, 0.85, 0.95)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        pytest.param(
            [
                judged("E", 1, "faster", FAST),
                judged("E", 4, "faster", (1.2, 1.1, 1.3)),
                judged("E", 16, "slower", SLOW),
            ],
            "On code: enable E up to concurrency 4: 1.42× [1.31, 1.54] at 1, 1.20× [1.10, 1.30] at 4; from concurrency "
            "16 on leave speculation off.",
            id="pays up to a concurrency",
        ),
        pytest.param(
            [judged("E", 4, "slower", SLOW), judged("E", 8, "faster", FAST), judged("E", 16, "faster", FAST)],
            "On code: at concurrency 4 leave speculation off; enable E at concurrency 8 to 16: 1.42× [1.31, 1.54] at "
            "8, 1.42× [1.31, 1.54] at 16.",
            id="pays from a concurrency",
        ),
        pytest.param(
            [judged("E", 1, "faster", FAST), judged("D", 1, "faster", (1.5, 1.4, 1.6))],
            "On code: enable E or D, inconclusive between them, at concurrency 1: 1.42× [1.31, 1.54] and "
            "1.50× [1.40, 1.60].",
            id="intervals that overlap decide nothing between two arms",
        ),
        pytest.param(
            [judged("E", 1, "faster", (1.2, 1.1, 1.3)), judged("D", 1, "faster", (1.5, 1.4, 1.6))],
            "On code: enable D at concurrency 1: 1.50× [1.40, 1.60].",
            id="an arm that is decidedly behind is not named",
        ),
        pytest.param(
            [judged("E", 1, "faster", FAST), judged("D", 1, "inconclusive", (2.5, 0.9, 7.0))],
            "On code: enable E at concurrency 1: 1.42× [1.31, 1.54] (D is inconclusive there).",
            id="a greater ratio that is open is no claim",
        ),
        pytest.param(
            [judged("E", 1, "inconclusive", (2.0, None, None)), judged("D", 1, "slower", SLOW)],  # type: ignore[arg-type]
            "On code: inconclusive at concurrency 1.",
            id="inconclusive arms forbid to leave all off",
        ),
        pytest.param(
            [judged("E", 1, "no difference", (1.0, 0.99, 1.01)), judged("E", 4, "slower", SLOW)],
            "On code: at every concurrency measured (1, 4) leave speculation off.",
            id="no gain anywhere",
        ),
        pytest.param(
            [judged("E", 4, "faster", FAST, load="steady"), judged("E", 4, "slower", SLOW, load="burst")],
            "On code: enable E under steady: 1.42× [1.31, 1.54]; under burst leave speculation off.",
            id="loads of one concurrency are told apart by name",
        ),
    ],
)
def test_a_workload_is_told_in_one_sentence(pairs: Sequence[JudgedPair], expected: str) -> None:
    assert expected in lines_of(*pairs)


def test_imported_prompts_have_no_name() -> None:
    said = lines_of(judged("E", 1, "faster", FAST, workload=""))
    assert said[0] == "Throughput at concurrency 1: 42 % higher (strict 95 % CI 31 to 54 %), E."
    assert said[1] == "Enable E at concurrency 1: 1.42× [1.31, 1.54]."


def test_the_headline_has_the_greatest_lower_bound_of_the_strict_reading() -> None:
    lucky = judged("lucky", 1, "faster", (3.0, 1.1, 8.0))
    unsure = judged("unsure", 1, "faster", (1.9, 1.8, 2.0), strict="inconclusive")
    answer = of(lucky, judged("E", 1, "faster", FAST), unsure)
    assert answer.headline is not None
    assert answer.headline.arm == "E"
    assert sentences(answer).headline.startswith(
        "Throughput at concurrency 1: 42 % higher (strict 95 % CI 31 to 54 %), E on "
    )
    assert sentences(answer).reading.startswith("The first line of a metric is strict unless it says usual reading: ")


def test_a_study_without_pairs_has_no_answer() -> None:
    assert lines_of() == ["No answer yet: only the baseline (no draft) has valid runs."]


def test_latencies_and_costs_are_better_where_they_are_lower() -> None:
    quick = judged("E", 1, "faster", (0.7, 0.65, 0.75), metric="ttft_p50_ms")
    slower = judged("D", 1, "faster", (0.9, 0.85, 0.95), metric="ttft_p50_ms")
    answer = of(quick, slower, metric="ttft_p50_ms")
    assert answer.choices[0].arms == ("E",)
    assert answer.headline == quick
    assert sentences(answer).headline.startswith(
        "Median TTFT at concurrency 1: 30 % lower (strict 95 % CI 25 to 35 %), E"
    )


def test_arms_that_do_not_speculate_are_not_told_to_leave_speculation_off() -> None:
    assert "keep no draft" in lines_of(judged("other flags", 1, "slower", SLOW), of_speculation=False)[1]


@st.composite
def tables(draw: st.DrawFn) -> list[JudgedPair]:
    """Up to three workloads, loads and arms; words, intervals and strict words as they may come together."""
    metric = draw(st.sampled_from(["output_tok_per_s", "ttft_p50_ms"]))
    pairs = []
    for workload, concurrency, arm in itertools.product(("code", "chat"), (1, 4, 16), ("D", "E", "N")):
        if draw(st.booleans()):
            pairs.append(draw(pair_of(workload, concurrency, arm, metric)))
    return pairs


@st.composite
def pair_of(draw: st.DrawFn, workload: str, concurrency: int, arm: str, metric: str) -> JudgedPair:
    centre = draw(st.floats(0.3, 3))
    reach = draw(st.one_of(st.none(), st.floats(1.001, 2)))
    if reach is None:
        pair = judged(arm, concurrency, "inconclusive", None, workload=workload, metric=metric)
        return replace(pair, verdict=UNKNOWN, strict=UNKNOWN)
    ratio = (centre, centre / reach, centre * reach)
    sides: dict[Word, bool] = {"faster": ratio[1] > 1, "slower": ratio[2] < 1}
    if BY_NAME[metric].better == "lower":
        sides = {"faster": ratio[2] < 1, "slower": ratio[1] > 1}
    sides |= {"no difference": True, "inconclusive": True}
    word = draw(st.sampled_from([word for word in WORDS if sides[word]]))
    strict = draw(st.sampled_from([word, "inconclusive"]))
    more = draw(st.one_of(st.none(), st.integers(1, 50))) if word == "inconclusive" else 0
    return judged(arm, concurrency, word, ratio, strict=strict, workload=workload, metric=metric, more=more)


@given(tables())
def test_every_claim_is_backed_by_a_verdict_of_its_cell(pairs: list[JudgedPair]) -> None:
    metric = "ttft_p50_ms" if pairs and pairs[0].comparison.better == "lower" else "output_tok_per_s"
    answer = of(*pairs, metric=metric)
    words = {(pair.workload, pair.load, pair.arm): pair.verdict.word for pair in pairs}
    assert answer.cells == len(pairs)
    for stretch in answer.stretches:
        for choice in stretch:
            verdicts_of_cell = {
                arm: word
                for (workload, load, arm), word in words.items()
                if (workload, load) == (choice.workload, choice.load)
            }
            assert set(choice.arms) == set(stretch[0].arms)
            assert all(verdicts_of_cell[arm] == "faster" for arm in choice.arms)
            if choice.action == "leave off":
                assert set(verdicts_of_cell.values()) <= {"slower", "no difference"}
            if choice.action == "inconclusive":
                assert "faster" not in verdicts_of_cell.values()
    if answer.headline is not None:
        assert answer.headline.strict.word == "faster"


@given(tables())
def test_no_arm_is_put_before_another_whose_interval_overlaps(pairs: list[JudgedPair]) -> None:
    for choice in of(*pairs).choices:
        for behind in choice.behind:
            assert any(
                behind.gain
                and best.gain
                and behind.gain.high is not None
                and best.gain.low is not None
                and behind.gain.high < best.gain.low
                for best in choice.best
            )
        for pair, other in itertools.permutations(choice.best, 2):
            assert not pair.is_decidedly_behind(other)


@given(tables())
def test_most_inconclusive_cells_need_no_more_repeats_than_the_answer_says(
    pairs: list[JudgedPair],
) -> None:
    inconclusive = [pair for pair in pairs if pair.verdict.word == "inconclusive"]
    cells = of(*pairs).inconclusive
    if cells is None:
        assert inconclusive == []
        return
    assert cells.cells == len(inconclusive)
    enough = [
        pair
        for pair in inconclusive
        if cells.more_repeats is not None and (pair.verdict.more_repeats or 99) <= cells.more_repeats
    ]
    assert (cells.more_repeats is None) or 2 * len(enough) > len(inconclusive)


@given(tables())
def test_the_sentences_name_only_arms_that_are_enabled_or_open(pairs: list[JudgedPair]) -> None:
    """A name of one letter between spaces is an arm here."""
    answer = of(*pairs)
    by_workload = itertools.groupby(answer.choices, key=lambda choice: choice.workload)
    for (workload, choices), line in zip(by_workload, sentences(answer).workloads, strict=True):
        named = {word for word in re.split(r"[ ,()]+", line) if word in ("D", "E", "N")}
        assert line.startswith(f"On {workload}: ")
        assert named <= {pair.arm for choice in choices for pair in (*choice.best, *choice.inconclusive)}


def test_an_interval_is_written_as_far_as_it_is_known() -> None:
    assert interval(Interval(1.42, 1.31, 1.54)) == "1.42× [1.31, 1.54]"
    assert interval(Interval(1.42, None, None)) == "1.42×"
    assert interval(None) == "no ratio"


def test_the_lines_of_an_answer_are_only_those_that_say_something() -> None:
    assert lines_of(judged("E", 1, "faster", FAST)) == [
        "Throughput at concurrency 1: 42 % higher (strict 95 % CI 31 to 54 %), E on code.",
        "On code: enable E at concurrency 1: 1.42× [1.31, 1.54].",
        READING,
    ]
    assert lines_of(judged("E", 1, "faster", FAST), strict=True)[-1] == f"{STRICT}."


def test_an_arm_over_all_cells_stands_beside_what_single_cells_decide() -> None:
    mean = OverAll("E", 2, Interval(1.18, 1.14, 1.22), "faster")
    lines = lines_of(judged("E", 1, "inconclusive"), judged("E", 4, "inconclusive"), over_all=[mean])
    assert lines[0].startswith("Throughput over all 2 cells: 18 % higher (95 % CI 14 to 22 %), E; usual reading.")
    assert "E over all 2 cells is faster: 1.18× [1.14, 1.22]." in lines


def test_a_control_says_how_far_runs_differ_and_whether_that_is_alarming() -> None:
    noisy = Control("again", "identical to the baseline, and yet differs by 4.0 %", is_alarming=True)
    assert lines_of(judged("E", 1, "faster", FAST), controls=[noisy])[-1] == (
        "again is a control, identical to the baseline, and yet differs by 4.0 %."
    )
