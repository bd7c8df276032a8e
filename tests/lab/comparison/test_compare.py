"""A table with a cell of every kind, to six digits: what users were shown does not drift when code is tidied up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lab.comparison.compare import CellRuns, Comparison, compare_cells
from lab.comparison.effect import Interval
from lab.comparison.influence import Influence, mean, percentile
from lab.comparison.samples import Requests, RunSample
from lab.comparison.verdict import Verdict, verdicts


def runs(
    arm: str, cell: int, ratio: float, repeats: int, *, launches: int, requests: int, **more: Any
) -> list[RunSample]:
    """Runs around 100 times the ratio; `launches` of them share an engine start."""
    samples = []
    for repeat in range(repeats):
        chance = np.random.default_rng([cell, repeat, arm == "plain"])
        value = 100 * ratio * np.exp(0.02 * chance.standard_normal())
        values_of_requests = value * np.exp(0.3 * chance.standard_normal(requests))
        samples.append(
            RunSample(
                f"{arm}-{cell}-{repeat}",
                arm,
                repeat,
                float(values_of_requests.mean() if requests else value),
                Requests(tuple(f"p{place}" for place in range(requests)), values_of_requests) if requests else None,
                launch=(arm, repeat // launches, cell),
                **more,
            )
        )
    return samples


def cell(
    place: int,
    ratio: float,
    repeats: int = 3,
    *,
    influence: Influence = mean,
    control: bool = False,
    launches: int = 1,
    requests: int = 0,
    until_decided: bool = False,
) -> CellRuns:
    plain, draft = (
        runs(arm, place, of, repeats, launches=launches, requests=requests, until_decided=until_decided)
        for arm, of in (("plain", 1.0), ("draft", ratio))
    )
    return CellRuns(plain, draft, influence, control=control, concurrency=4.0**place)


TABLE = (
    cell(0, 1.3),
    cell(1, 0.8, requests=12),
    cell(2, 1.01, repeats=4, launches=2),
    cell(3, 1.0, control=True),
    cell(0, 1.05, repeats=1, requests=12),
    cell(1, 1.1, repeats=4, until_decided=True),
    cell(2, 1.2, requests=30, influence=percentile(0.5)),
)
SCATTER = "with the scatter of 4 like cells and 1 control"


def numbers(interval: Interval | None) -> tuple[float | None, ...]:
    assert interval is not None
    return interval.value, interval.low, interval.high


@pytest.fixture(scope="module")
def table() -> list[Comparison]:
    return compare_cells(TABLE, "higher")


def test_what_an_interval_stands_on_is_said_in_words(table: list[Comparison]) -> None:
    assert [comparison.basis for comparison in table] == [
        f"3 repeats, {SCATTER}",
        f"3 repeats and 12 prompts, {SCATTER}",
        f"4 repeats on 2 engine starts, {SCATTER}",
        "3 repeats, with the scatter of 5 like cells",
        "1 repeat and 12 prompts, with the scatter of 5 like cells and 1 control",
        f"4 repeats, {SCATTER}; looked at after every repeat",
        f"3 repeats and 30 prompts, {SCATTER}",
    ]
    assert [(comparison.blocks, comparison.prompts, comparison.repeats_a_block) for comparison in table] == [
        (3, None, 1),
        (3, 12, 1),
        (2, None, 2),
        (3, None, 1),
        (1, 12, 1),
        (4, None, 1),
        (3, 30, 1),
    ]


def test_ratios_and_differences_have_these_intervals(table: list[Comparison]) -> None:
    ratios = [
        (1.2979668241, 1.2466994441, 1.3513424461),
        (0.9040669027, 0.8157347477, 1.0019641396),
        (1.0417318461, 0.9848386528, 1.1019117051),
        (1.0052268326, 0.9622087655, 1.0501681351),
        (1.0989379763, 0.4410388984, 2.7382271273),
        (1.1144660700, 1.0795774131, 1.1504822221),
        (1.2837349008, 1.2053544703, 1.3672121655),
    ]
    differences = [
        (29.7607966698, 25.1186747149, 34.4029186247),
        (-9.4790415130, -19.0639518370, 0.1058688110),
        (4.0809562695, -1.5368307872, 9.6987433261),
        (0.5310699911, -3.8981708981, 4.9603108803),
        (9.3285095641, -52.7024523527, 163.8912476935),
        (11.2730828988, 7.9557588909, 14.5904069067),
        (29.2218043109, 21.4694315543, 36.9741770674),
    ]
    assert [numbers(comparison.ratio) for comparison in table] == [pytest.approx(ratio, rel=1e-6) for ratio in ratios]
    assert [numbers(comparison.difference) for comparison in table] == [
        pytest.approx(difference, rel=1e-6) for difference in differences
    ]


def rounded(verdict: Verdict) -> tuple[Any, ...]:
    bounds = (
        () if verdict.interval is None else (round(verdict.interval.low or 0, 5), round(verdict.interval.high or 0, 5))
    )
    p_differs = None if verdict.p_differs is None else round(verdict.p_differs, 6)
    return verdict.word, p_differs, verdict.p_same, verdict.more_repeats, *bounds


def test_the_usual_reading_of_the_table(table: list[Comparison]) -> None:
    assert [rounded(verdict) for verdict in verdicts(table)] == [
        ("faster", 0.00029, 1.0, 0, 1.23395, 1.3653),
        ("inconclusive", 0.080466, 1.0, None, 0.80013, 1.0215),
        ("inconclusive", 0.129245, 1.0, 4, 0.96909, 1.11982),
        ("control", 0.759499, None, None),
        ("inconclusive", 0.701021, 1.0, None, 0.29494, 4.09456),
        ("faster", 0.003506, 1.0, 0, 1.05676, 1.17533),
        ("faster", 0.001328, 1.0, 0, 1.18619, 1.3893),
    ]


def test_the_strict_reading_of_the_table(table: list[Comparison]) -> None:
    assert [rounded(verdict) for verdict in verdicts(table, strict=True)] == [
        ("faster", 0.00029, 1.0, 0, 1.21044, 1.39182),
        ("inconclusive", 0.160931, 1.0, None, 0.77548, 1.05397),
        ("inconclusive", 0.215408, 1.0, 8, 0.9386, 1.1562),
        ("control", 0.759499, None, None),
        ("inconclusive", 0.701021, 1.0, None, 0.10976, 11.00326),
        ("faster", 0.013494, 1.0, 0, 1.02273, 1.21443),
        ("faster", 0.002213, 1.0, 0, 1.1508, 1.43203),
    ]


def test_a_cell_of_equal_repeats_has_no_width_and_changes_no_other_cell() -> None:
    """Greedy acceptance, say: for one ratio in seven the variance of three equal logarithms is 1e-35 instead of 0."""
    noisy = [cell(place, 1.06) for place in range(5)]
    alone = [numbers(comparison.ratio) for comparison in compare_cells(noisy, "higher")]
    candidates = [100 + place / 3 for place in range(1, 300)]
    rounded = [each for each in candidates if np.log(np.full(3, each / 100)).var() > 0]
    for candidate in (candidates[0], *rounded[:3]):
        plain, draft = (
            [RunSample(f"{arm}-{repeat}", arm, repeat, value) for repeat in range(3)]
            for arm, value in (("plain", 100.0), ("draft", candidate))
        )
        equal = CellRuns(plain, draft)
        *others, last = (numbers(comparison.ratio) for comparison in compare_cells([*noisy, equal], "higher"))
        assert others == alone
        assert last == pytest.approx((candidate / 100,) * 3)


def turns(runs: list[RunSample], per_session: int, *, in_sessions: bool) -> list[RunSample]:
    """Each prompt becomes a session of so many turns, all with its number."""
    named = []
    for run in runs:
        assert run.requests is not None
        prompts = tuple(f"{prompt}.{turn}" for prompt in run.requests.prompts for turn in range(per_session))
        requests = Requests(prompts, run.requests.numbers.repeat(per_session))
        named.append(replace(run, requests=requests, in_sessions=in_sessions))
    return named


def test_turns_of_a_session_are_no_evidence_of_their_own() -> None:
    alone = cell(0, 1.2, requests=12)

    def interval(per_session: int, *, in_sessions: bool) -> tuple[str, float]:
        baseline, candidate = (
            turns(list(of), per_session, in_sessions=in_sessions) for of in (alone.baseline, alone.candidate)
        )
        (found,) = compare_cells([CellRuns(baseline, candidate)], "higher")
        assert found.ratio is not None
        assert found.ratio.low is not None
        assert found.ratio.high is not None
        return found.basis, found.ratio.high / found.ratio.low

    basis, width = interval(8, in_sessions=True)
    assert basis == "3 repeats and 12 sessions"
    assert width == pytest.approx(interval(1, in_sessions=False)[1])
    assert width > interval(8, in_sessions=False)[1]


def test_a_single_session_says_nothing_of_others() -> None:
    alone = cell(0, 1.2, requests=1)
    baseline, candidate = (turns(list(of), 8, in_sessions=True) for of in (alone.baseline, alone.candidate))
    (found,) = compare_cells([CellRuns(baseline, candidate)], "higher")
    assert found.prompts is None
