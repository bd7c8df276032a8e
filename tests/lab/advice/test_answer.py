"""The answer of a study stands on verdicts: tables of cases, and what holds for every table."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.advice.answer import Answer, InconclusiveCells, JudgedPair, OverAll, answer
from lab.advice.answer_text import interval, sentences
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
    assert said[0].startswith("E beats no draft at concurrency 1: 1.42× [1.31, 1.54] its output throughput")
    assert said[1] == "Enable E at concurrency 1: 1.42× [1.31, 1.54]."


def test_the_headline_has_the_greatest_lower_bound_of_the_strict_reading() -> None:
    lucky = judged("lucky", 1, "faster", (3.0, 1.1, 8.0))
    unsure = judged("unsure", 1, "faster", (1.9, 1.8, 2.0), strict="inconclusive")
    answer = of(lucky, judged("E", 1, "faster", FAST), unsure)
    assert answer.headline is not None
    assert answer.headline.arm == "E"
    assert (
        sentences(answer).headline
        == "E beats no draft on code at concurrency 1: 1.42× [1.31, 1.54] its output throughput, by the strict reading."
    )
    burst = judged("E", 4, "faster", FAST, load="burst")
    assert lines_of(burst, judged("E", 4, "slower", SLOW, load="steady"))[0].startswith(
        "E beats no draft on code under burst: "
    )
    assert "the first line stands on the strict reading" in sentences(answer).reading


def test_without_a_strict_claim_the_headline_claims_nothing() -> None:
    unsure = judged("E", 1, "faster", FAST, strict="inconclusive")
    assert lines_of(unsure)[0] == "No single claim stands on the strict reading yet; the calls below do on theirs."
    assert lines_of(judged("E", 1, "inconclusive"))[0] == "No arm beats no draft by output throughput for sure yet."
    assert lines_of(judged("E", 1, "slower", SLOW))[0] == (
        "No arm beats no draft by output throughput anywhere measured: leave speculation off."
    )


def test_a_study_without_pairs_has_no_answer() -> None:
    assert lines_of() == ["There is no answer yet: no arm was measured beside no draft."]


def test_latencies_and_costs_are_better_where_they_are_lower() -> None:
    quick = judged("E", 1, "faster", (0.7, 0.65, 0.75), metric="ttft_p50_ms")
    slower = judged("D", 1, "faster", (0.9, 0.85, 0.95), metric="ttft_p50_ms")
    answer = of(quick, slower, metric="ttft_p50_ms")
    assert answer.choices[0].arms == ("E",)
    assert answer.headline == quick
    assert "0.70× [0.65, 0.75] its time to first token p50" in sentences(answer).headline
    cheaper = judged("E", 1, "faster", (0.7, 0.65, 0.75), metric="cost_per_million_output_tokens")
    assert "its cost per million output tokens" in lines_of(cheaper, metric="cost_per_million_output_tokens")[0]


def test_arms_that_do_not_speculate_are_not_told_to_leave_speculation_off() -> None:
    assert "keep no draft" in lines_of(judged("other flags", 1, "slower", SLOW), of_speculation=False)[1]


@pytest.mark.parametrize(
    ("needed", "expected"),
    [
        ([2], "1 of 2 cells is inconclusive; 2 more repeats would decide it, about 3 min by the forecast."),
        ([None], "1 of 2 cells is inconclusive: more repeats alone would not decide it; measure more prompts."),
        ([5, 20], "2 of 3 cells are inconclusive; 20 more repeats would decide both, about 30 min by the forecast."),
        (
            [1, 2, 40],
            "3 of 4 cells are inconclusive; 2 more repeats would decide most of them, about 3 min by the forecast.",
        ),
        (
            [2, None, None],
            "3 of 4 cells are inconclusive: more repeats alone would not decide most of them; measure more prompts.",
        ),
    ],
)
def test_what_is_inconclusive_is_told_with_what_it_would_take(needed: list[int | None], expected: str) -> None:
    inconclusive = [judged("E", 2**place, "inconclusive", more=more) for place, more in enumerate(needed)]
    decided = judged("E", 64, "faster", FAST)
    assert lines_of(*inconclusive, decided, repeat_s=90.0)[-1] == expected
    assert "by the forecast" not in lines_of(*inconclusive, decided)[-1]


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([1], "1 of 2 cells is inconclusive; 1 more engine start of each arm would decide it."),
        ([2, 5, 9], "3 of 4 cells are inconclusive; 5 more engine starts of each arm would decide most of them."),
    ],
)
def test_what_only_engine_starts_would_decide_is_told(starts: list[int], expected: str) -> None:
    inconclusive = [judged("E", 2**place, "inconclusive", starts=more) for place, more in enumerate(starts)]
    assert lines_of(*inconclusive, judged("E", 64, "faster", FAST), repeat_s=90.0)[-1] == expected


def test_why_cells_have_no_interval_is_told() -> None:
    alone = judged("E", 1, "inconclusive", (1.5, None, None))  # type: ignore[arg-type]
    assert (
        lines_of(alone)[-1]
        == "1 of 1 cell is inconclusive: too few repeats to show how much runs vary; measure 3 or more."
    )
    assert of(alone).inconclusive == InconclusiveCells(1, 0, 1, None, None)
    unknown = judged("E", 1, "inconclusive", None)
    assert lines_of(unknown)[-1] == "1 of 1 cell is inconclusive: there an arm or the baseline has no valid number."


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
    cells = of(*pairs, repeat_s=60.0).inconclusive
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
    assert cells.takes_s == (None if cells.more_repeats is None else 60.0 * cells.more_repeats)


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
        "E beats no draft on code at concurrency 1: 1.42× [1.31, 1.54] its output throughput, by the strict reading.",
        "On code: enable E at concurrency 1: 1.42× [1.31, 1.54].",
        (
            "How sure: on average at most 5 % of the calls in a table are false (Benjamini-Hochberg); the first line "
            "stands on the strict reading: with 95 % confidence no call in the table is false (Holm)."
        ),
    ]
    assert lines_of(judged("E", 1, "faster", FAST), strict=True)[-1] == (
        "How sure: with 95 % confidence no call in the table is false (Holm)."
    )


@pytest.mark.parametrize(
    ("seconds", "minutes"), [(10.0, "1 min"), (89.0, "1 min"), (91.0, "2 min"), (7140.0, "119 min"), (7200.0, "2 h")]
)
def test_the_time_of_more_repeats_is_told_in_minutes_or_hours(seconds: float, minutes: str) -> None:
    inconclusive = judged("E", 1, "inconclusive", more=1)
    assert lines_of(inconclusive, repeat_s=seconds)[-1] == (
        f"1 of 1 cell is inconclusive; 1 more repeat would decide it, about {minutes} by the forecast."
    )


def test_an_arm_over_all_cells_stands_beside_what_single_cells_decide() -> None:
    mean = OverAll("E", 2, Interval(1.18, 1.14, 1.22), "faster")
    lines = lines_of(judged("E", 1, "inconclusive"), judged("E", 4, "inconclusive"), over_all=[mean])
    assert lines[0] == "No arm beats no draft by output throughput for sure in any single cell yet."
    assert "E over all 2 cells is faster: 1.18× [1.14, 1.22]." in lines


def test_a_control_says_how_far_runs_differ_and_whether_that_is_alarming() -> None:
    noisy = Control("again", "identical to the baseline, and yet differs by 4.0 %", is_alarming=True)
    assert lines_of(judged("E", 1, "faster", FAST), controls=[noisy])[-1] == (
        "again is a control, identical to the baseline, and yet differs by 4.0 %."
    )
