"""Each check of published figures, just within what rounding allows and just beyond it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.published.checks import (
    acceptance_lengths,
    acceptance_positions,
    contradictions,
    cost_ratios,
    costs,
    findings,
    identical_tables,
    tau_examples,
    total_throughputs,
)
from lab.published.figures import PublishedFigure, PublishedFinding, TauClaim

SETTING: dict[str, Any] = {
    "source": "theirs",
    "study": "table 1",
    "hardware": "one GPU",
    "engine": "vllm",
    "engine_version": "0.11",
    "target": "target",
    "method": "eagle3",
    "draft_model": "draft",
    "num_speculative_tokens": 4,
    "dataset": "prose",
    "access_pattern": "closed loop",
    "load": "8",
    "unit": "",
    "scale": "absolute",
}
COST, OUTPUT, TOTAL = "cost_per_million_output_tokens", "output_throughput", "total_token_throughput"


def figure(metric: str, printed: str, **changes: Any) -> PublishedFigure:
    return PublishedFigure(**{**SETTING, "metric": metric, "printed": printed} | changes)


@pytest.mark.parametrize(
    ("length", "rate", "follows"),
    [
        ("3.00", "50.0", None),
        ("3.00", "50.1", None),
        ("3.01", "50.0", "3.00"),
        ("3.0", "51.2", None),
        ("3.0", "51.4", "3.06"),
        ("3.00", "49.8", "2.99"),
    ],
)
def test_an_acceptance_length_follows_from_the_rate(length: str, rate: str, follows: str | None) -> None:
    pair = (figure("acceptance_length", length), figure("acceptance_rate", rate))
    sentence = (
        f"acceptance length {length} does not follow from an acceptance rate of {rate} % with 4 speculative tokens, "
        f"which gives {follows}"
    )
    expected = [] if follows is None else [PublishedFinding("acceptance_lengths", "theirs", sentence, pair)]
    assert acceptance_lengths(pair) == expected


def test_what_rounding_allows_is_no_finding_and_a_hair_more_is_one() -> None:
    """A rate of 50.0 % may be 50.05 %, and 64 tokens make 0.032 of that, beside the length's own 0.05."""
    many: dict[str, Any] = {"num_speculative_tokens": 64}
    for length, wrong in (("33.0", False), ("33.2", True), ("32.8", True)):
        pair = [figure("acceptance_length", length, **many), figure("acceptance_rate", "50.0", **many)]
        assert bool(acceptance_lengths(pair)) is wrong
    later = figure("acceptance_length", "9.0", load="16"), figure("acceptance_rate", "50.0", load="16")
    (doubt,) = acceptance_lengths([figure("acceptance_length", "9.0"), *later])
    assert doubt.figures == later


def test_a_length_without_a_rate_or_k_is_not_judged() -> None:
    length, rate = figure("acceptance_length", "9.0"), figure("acceptance_rate", "50.0")
    assert acceptance_lengths([length]) == []
    assert acceptance_lengths([rate]) == []
    unknown: dict[str, Any] = {"num_speculative_tokens": None}
    assert (
        acceptance_lengths([figure("acceptance_length", "9.0", **unknown), figure("acceptance_rate", "5", **unknown)])
        == []
    )
    elsewhere = figure("acceptance_rate", "50.0", load="16")
    assert acceptance_lengths([length, elsewhere]) == []
    twice = figure("acceptance_rate", "60.0")
    assert acceptance_lengths([length, rate, twice]) == []


def positions(*printed: str) -> list[PublishedFigure]:
    return [figure(f"acceptance_rate_pos{place}", text) for place, text in enumerate(printed)]


@pytest.mark.parametrize(
    ("length", "rates", "sentences"),
    [
        ("2.30", ("70.0", "60.0"), []),
        ("2.31", ("70.0", "60.0"), ["acceptance length 2.31 is not 1 + the rates per position, 2.30"]),
        ("2.305", ("70.0", "60.0"), ["acceptance length 2.305 is not 1 + the rates per position, 2.30"]),
        ("2.30", ("60.0", "60.0"), ["acceptance length 2.30 is not 1 + the rates per position, 2.20"]),
        (
            "2.30",
            ("60.0", "70.0"),
            ["acceptance_rate_pos1 (70.0 %) is above acceptance_rate_pos0 (60.0 %), which cannot be"],
        ),
    ],
)
def test_positions_fall_and_add_up_to_the_length(length: str, rates: tuple[str, ...], sentences: list[str]) -> None:
    doubts = acceptance_positions([figure("acceptance_length", length), *reversed(positions(*rates))])
    assert [(doubt.check, doubt.source, doubt.sentence) for doubt in doubts] == [
        ("acceptance_positions", "theirs", sentence) for sentence in sentences
    ]


def test_rising_positions_need_no_length_and_a_length_needs_positions() -> None:
    rising = positions("60.0", "70.0")
    (doubt,) = acceptance_positions(rising)
    assert doubt.figures == tuple(rising)
    assert acceptance_positions([figure("acceptance_length", "9.0")]) == []
    later = [
        figure("acceptance_length", "9.0", load="16"),
        *(replace(position, load="16") for position in positions("70.0")),
    ]
    (doubt,) = acceptance_positions([figure("acceptance_length", "9.0"), *later])
    assert doubt.figures == tuple(later)


def test_positions_are_ordered_by_their_number() -> None:
    rates = positions("90.0", "80.0", "70.0", "60.0", "50.0", "40.0", "30.0", "20.0", "15.0", "10.0", "5.0")
    assert acceptance_positions(sorted(rates, key=lambda position: position.metric)) == []


@pytest.mark.parametrize(
    ("cost", "rate", "price", "wrong"),
    [
        ("1.00", "1000", 3.60, False),
        ("1.01", "1000", 3.60, True),
        ("0.99", "1000", 3.60, True),
        ("1.00", "995.4", 3.60, False),  # 1.0046
        ("1.00", "994.0", 3.60, True),  # 1.0060
        ("9.00", "0", 3.60, False),
        ("9.00", "1000", None, False),
    ],
)
def test_a_cost_follows_from_price_and_throughput(cost: str, rate: str, price: float | None, wrong: bool) -> None:  # noqa: FBT001
    doubts = costs([figure(COST, cost, price_usd_per_hour=price), figure(OUTPUT, rate)])
    assert bool(doubts) is wrong
    for doubt in doubts:
        assert (doubt.check, len(doubt.figures)) == ("costs", 2)


def test_a_wrong_cost_says_what_its_price_and_throughput_give() -> None:
    pair = (figure(COST, "1.10", price_usd_per_hour=3.6), figure(OUTPUT, "995"))
    sentence = (
        "1.10 USD per million output tokens does not follow from 995 tok/s at 3.6 USD per hour, which gives 1.00 to "
        "1.01"
    )
    elsewhere = figure(COST, "5.00", price_usd_per_hour=3.6, load="16")
    assert costs([elsewhere, *pair]) == [PublishedFinding("costs", "theirs", sentence, pair)]
    assert costs([pair[0], replace(pair[1], scale="percent change")]) == []


def cheaper(cost: str, percent: str, **changes: Any) -> list[PublishedFigure]:
    """A baseline of 2.00 USD, a candidate, and its throughput as a share of the baseline's."""
    plain = {"method": "none", "draft_model": None, "num_speculative_tokens": None}
    return [
        figure(COST, "2.00", price_usd_per_hour=3.6, **plain),
        figure(COST, cost, **({"price_usd_per_hour": 3.6} | changes)),
        figure(OUTPUT, percent, scale="percent of baseline", study="another"),
    ]


@pytest.mark.parametrize(
    ("cost", "percent", "wrong"),
    [("1.00", "200.0", False), ("1.00", "201.6", True), ("1.00", "198.0", True), ("1.00", "200.7", False)],
)
def test_costs_at_one_price_are_in_the_ratio_of_the_throughputs(cost: str, percent: str, wrong: bool) -> None:  # noqa: FBT001
    figures = cheaper(cost, percent)
    doubts = cost_ratios(figures)
    assert bool(doubts) is wrong
    for doubt in doubts:
        assert (doubt.check, doubt.source, doubt.figures) == ("cost_ratios", "theirs", tuple(figures))
        assert doubt.sentence == (
            "2.00 and 1.00 USD per million output tokens at 3.6 USD per hour are 500 and 1000 tok/s, +100.0 %; the "
            f"throughput on prose is given as +{float(percent) - 100:.1f} % (8): the two are of different loads "
            "(8 and 8), or do not fit"
        )
    baseline, candidate, stated = figures
    assert len(cost_ratios([candidate, stated, baseline])) == len(doubts)


def test_each_pair_of_costs_is_compared_with_every_throughput() -> None:
    baseline, candidate, stated = cheaper("1.00", "150.0")
    again = replace(stated, load="16")
    free = replace(candidate, printed="0")
    other = replace(candidate, dataset="code")
    doubts = cost_ratios([replace(baseline, load="99"), free, other, baseline, candidate, stated, again])
    assert [doubt.figures for doubt in doubts] == [
        (replace(baseline, load="99"), candidate, stated),
        (replace(baseline, load="99"), candidate, again),
        (baseline, candidate, stated),
        (baseline, candidate, again),
    ]
    assert cost_ratios([baseline, candidate, replace(stated, metric="mean_ttft")]) == []
    assert cost_ratios([baseline, candidate, replace(stated, scale="absolute")]) == []
    assert cost_ratios([candidate, replace(candidate, printed="9.00"), stated]) == []


@pytest.mark.parametrize(
    ("costs_usd", "percent", "fits"),
    [
        (("2", "1"), "500", True),  # 2.5 / 0.5, and as much again for the rounding of 500
        (("2", "1"), "500.6", False),
        (("2", "1"), "100", True),  # 1.5 / 1.5
        (("2", "1"), "99.4", False),
        (("2", "1"), "100.5", True),
        (("2.0", "1.0"), "186", True),  # 1.95 / 1.05 = 1.857
        (("2.0", "1.0"), "184", False),
        (("2.0", "1.0"), "216", True),  # 2.05 / 0.95 = 2.158
        (("2.0", "1.0"), "217", False),
    ],
)
def test_a_ratio_of_costs_is_as_exact_as_what_was_printed(costs_usd: tuple[str, str], percent: str, fits: bool) -> None:  # noqa: FBT001
    baseline, candidate, stated = cheaper(costs_usd[1], percent)
    assert (cost_ratios([replace(baseline, printed=costs_usd[0]), candidate, stated]) == []) is fits


def test_costs_at_two_prices_or_on_two_machines_are_not_compared() -> None:
    assert cost_ratios(cheaper("1.00", "150.0", price_usd_per_hour=7.2)) == []
    assert cost_ratios(cheaper("1.00", "150.0", price_usd_per_hour=None)) == []
    assert cost_ratios(cheaper("1.00", "150.0", hardware="another")) == []
    assert cost_ratios(cheaper("1.00", "150.0", dataset="code")) == []
    assert len(cost_ratios(cheaper("1.00", "150.0"))) == 1


def test_two_machines_with_the_same_digits_were_not_both_measured() -> None:
    here = [figure(OUTPUT, "812.5"), figure("mean_ttft", "31.2")]
    there = [figure(OUTPUT, "812.5", hardware="another"), figure("mean_ttft", "31.2", hardware="another")]
    (doubt,) = identical_tables([*here, *there])
    assert doubt == PublishedFinding(
        "identical_tables",
        "theirs",
        "all 2 figures of one GPU and another are the same to the last digit: one of the two was not measured",
        tuple(here),
    )
    relative = [replace(figure_of_table, scale="percent change") for figure_of_table in (*here, *there)]
    assert identical_tables(relative) == []
    only_here = figure("duration", "1", load="99")
    (doubt,) = identical_tables([only_here, *here, *there])
    assert doubt.figures == tuple(here)
    assert identical_tables([here[0], there[0]]) == []  # a single one may be chance
    differing = figure("mean_ttft", "31.3", hardware="another")
    assert identical_tables([*here, there[0], differing]) == []
    elsewhere = [
        figure(OUTPUT, "812.5", hardware="another", study="2"),
        figure("mean_ttft", "31.2", hardware="another", study="2"),
    ]
    assert identical_tables([*here, *elsewhere]) == []


def test_two_values_for_one_thing_contradict_each_other() -> None:
    one, other = figure(OUTPUT, "100", unit="tok/s"), figure(OUTPUT, "110", unit="tok/s", note="figure 3")
    (doubt,) = contradictions([one, other])
    sentence = "output_throughput is 100 and 110 tok/s in the same setting (110: figure 3)"
    assert doubt == PublishedFinding("contradictions", "theirs", sentence, (one, other))
    assert contradictions([one, one]) == []
    assert contradictions([one, figure("mean_ttft", "110")]) == []
    assert contradictions([one, figure(OUTPUT, "110", scale="percent change")]) == []
    assert contradictions([one, figure(OUTPUT, "110", load="16")]) == []


@pytest.mark.parametrize(
    ("total", "wrong"), [("500.0", False), ("502.4", False), ("502.5", False), ("502.6", True), ("497.4", True)]
)
def test_total_throughput_follows_from_the_lengths(total: str, wrong: bool) -> None:  # noqa: FBT001
    lengths = {"dataset": "random 1024/256"}
    pair = (figure(TOTAL, total, **lengths), figure(OUTPUT, "100.0", **lengths))
    sentence = (
        f"{total} tok/s in all beside 100.0 tok/s of output does not fit 1024 input and 256 output tokens a request, "
        "which gives 500.00: outputs were shorter, or one figure is wrong"
    )
    expected = [PublishedFinding("total_throughputs", "theirs", sentence, pair)] if wrong else []
    assert total_throughputs([figure(TOTAL, total), figure(OUTPUT, "100.0"), *pair]) == expected
    assert total_throughputs([pair[0], replace(pair[1], printed="0")]) == []
    assert total_throughputs(pair[:1]) == []
    assert total_throughputs(pair[1:]) == []


@pytest.mark.parametrize(
    ("stated", "wrong"), [("3.36", False), ("3.4", False), ("3.37", True), ("3.5", True), ("3", False)]
)
def test_an_example_follows_from_its_formula(stated: str, wrong: bool) -> None:  # noqa: FBT001
    sentence = (
        f"about {stated} tokens a round for acceptance 0.8 and 4 drafted tokens does not follow from the formula "
        "beside it, which gives 3.36"
    )
    doubts = tau_examples([TauClaim("theirs", 0.8, 4, stated)])  # (1 - 0.8^5) / 0.2 = 3.3616
    assert doubts == ([PublishedFinding("tau_examples", "theirs", sentence)] if wrong else [])


def test_every_check_has_its_say_in_order() -> None:
    wrong = [
        figure("acceptance_length", "9.0"),
        figure("acceptance_rate", "50.0"),
        figure(OUTPUT, "1"),
        figure(OUTPUT, "2"),
    ]
    doubts = findings(wrong, [TauClaim("theirs", 0.8, 4, "5")])
    assert [doubt.check for doubt in doubts] == ["acceptance_lengths", "contradictions", "tau_examples"]
