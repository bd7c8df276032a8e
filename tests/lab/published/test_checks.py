"""Each check of published figures, just within what rounding allows and just beyond it."""

from __future__ import annotations

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
from lab.published.figures import PublishedFigure, TauClaim

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
    ("length", "rate", "wrong"),
    [
        ("3.00", "50.0", False),
        ("3.00", "50.1", False),
        ("3.01", "50.0", True),
        ("3.0", "51.2", False),
        ("3.0", "51.4", True),
        ("3.00", "49.8", True),
    ],
)
def test_an_acceptance_length_follows_from_the_rate(length: str, rate: str, wrong: bool) -> None:  # noqa: FBT001
    found = acceptance_lengths([figure("acceptance_length", length), figure("acceptance_rate", rate)])
    assert bool(found) is wrong
    for each in found:
        assert (each.check, each.source) == ("acceptance_lengths", "theirs")
        assert f"acceptance length {length} does not follow" in each.sentence


def test_a_length_without_a_rate_or_a_number_of_tokens_is_not_judged() -> None:
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
        ("2.31", ("70.0", "60.0"), ["is not 1 + the rates per position, 2.30"]),
        ("2.305", ("70.0", "60.0"), ["is not 1 + the rates per position, 2.30"]),
        ("2.30", ("60.0", "60.0"), ["is not 1 + the rates per position, 2.20"]),
        ("2.30", ("60.0", "70.0"), ["pos1 (70.0 %) is above acceptance_rate_pos0 (60.0 %), which cannot be"]),
    ],
)
def test_positions_fall_and_add_up_to_the_length(length: str, rates: tuple[str, ...], sentences: list[str]) -> None:
    found = acceptance_positions([figure("acceptance_length", length), *reversed(positions(*rates))])
    assert len(found) == len(sentences)
    for each, words in zip(found, sentences, strict=True):
        assert words in each.sentence


def test_positions_are_ordered_by_their_number() -> None:
    rates = positions("90.0", "80.0", "70.0", "60.0", "50.0", "40.0", "30.0", "20.0", "15.0", "10.0", "5.0")
    assert acceptance_positions(sorted(rates, key=lambda each: each.metric)) == []


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
    found = costs([figure(COST, cost, price_usd_per_hour=price), figure(OUTPUT, rate)])
    assert bool(found) is wrong
    for each in found:
        assert f"{cost} USD per million output tokens does not follow from {rate} tok/s" in each.sentence


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
    found = cost_ratios(cheaper(cost, percent))
    assert bool(found) is wrong
    for each in found:
        assert "500 and 1000 tok/s, +100.0 %" in each.sentence
        assert len(each.figures) == 3


def test_costs_are_not_held_against_each_other_at_two_prices_or_on_two_machines() -> None:
    assert cost_ratios(cheaper("1.00", "150.0", price_usd_per_hour=7.2)) == []
    assert cost_ratios(cheaper("1.00", "150.0", price_usd_per_hour=None)) == []
    assert cost_ratios(cheaper("1.00", "150.0", hardware="another")) == []
    assert cost_ratios(cheaper("1.00", "150.0", dataset="code")) == []
    assert len(cost_ratios(cheaper("1.00", "150.0"))) == 1


def test_two_machines_with_the_same_digits_were_not_both_measured() -> None:
    here = [figure(OUTPUT, "812.5"), figure("mean_ttft", "31.2")]
    there = [figure(OUTPUT, "812.5", hardware="another"), figure("mean_ttft", "31.2", hardware="another")]
    (found,) = identical_tables([*here, *there])
    assert "all 2 figures of one GPU and another are the same to the last digit" in found.sentence
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
    (found,) = contradictions([one, other])
    assert found.sentence == "output_throughput is 100 and 110 tok/s in the same setting (110: figure 3)"
    assert contradictions([one, one]) == []
    assert contradictions([one, figure(OUTPUT, "110", load="16")]) == []


@pytest.mark.parametrize(("total", "wrong"), [("500.0", False), ("502.4", False), ("502.6", True), ("497.4", True)])
def test_total_throughput_follows_from_the_lengths(total: str, wrong: bool) -> None:  # noqa: FBT001
    lengths = {"dataset": "random 1024/256"}
    found = total_throughputs([figure(TOTAL, total, **lengths), figure(OUTPUT, "100.0", **lengths)])
    assert bool(found) is wrong
    assert total_throughputs([figure(TOTAL, total), figure(OUTPUT, "100.0")]) == []


@pytest.mark.parametrize(
    ("stated", "wrong"), [("3.36", False), ("3.4", False), ("3.37", True), ("3.5", True), ("3", False)]
)
def test_an_example_follows_from_its_formula(stated: str, wrong: bool) -> None:  # noqa: FBT001
    found = tau_examples([TauClaim("theirs", 0.8, 4, stated)])  # (1 - 0.8^5) / 0.2 = 3.3616
    assert bool(found) is wrong
    for each in found:
        assert "which gives 3.36" in each.sentence


def test_every_check_has_its_say_in_order() -> None:
    wrong = [
        figure("acceptance_length", "9.0"),
        figure("acceptance_rate", "50.0"),
        figure(OUTPUT, "1"),
        figure(OUTPUT, "2"),
    ]
    found = findings(wrong, [TauClaim("theirs", 0.8, 4, "5")])
    assert [each.check for each in found] == ["acceptance_lengths", "contradictions", "tau_examples"]
