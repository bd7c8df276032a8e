"""What a study will probably decide, and the plan that decides most of it in the least time."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from lab.comparison.compare import CellRuns, compare_cells
from lab.comparison.samples import RunSample
from lab.comparison.verdict import verdicts
from lab.planning.components import Components
from lab.planning.prospects import Prospect, Prospects, Size, Table, _decided, decided_share, prospects, size_of
from lab.study import Study
from lab.study.parsing import study_from_dict

ARMS = [{"name": "plain"}, {"name": "k3", "speculation": {"method": "ngram", "num_speculative_tokens": 3}}]
LOADS = [{"max_concurrency": streams, "num_prompts": 32} for streams in (1, 2, 4, 8, 16, 32)]


def study(**changes: Any) -> Study:
    """Six cells."""
    return study_from_dict(
        {"name": "s", "target": "t", "arms": ARMS, "workloads": [{"dataset": "story"}], "loads": LOADS, **changes}
    )


def known(*, start: float | None, run: float, request: float | None = None, gain: float = 1.1) -> Components:
    """Standard deviations; the request's is that which it adds to a run of 32 prompts."""
    return Components(
        None if start is None else start**2,
        run**2,
        None if request is None else 32 * request**2,
        32.0,
        (math.log(gain) / 2, math.log(gain)),
    )


def expected(it: Components, *, start_s: float = 30.0, run_s: float = 5.0, **changes: Any) -> Prospects:
    def seconds(size: Size) -> float:
        return 2 * size.starts * (start_s + 6 * run_s * size.runs_per_start * size.prompts_factor)

    outlook = prospects(study(**changes), it, seconds)
    assert outlook is not None
    return outlook


@pytest.mark.parametrize(("starts", "sd"), [(2, 0.02), (3, 0.03), (4, 0.08)])
def test_the_share_decided_is_that_of_tables_that_are_measured(starts: int, sd: float) -> None:
    """Run by run through the whole comparison, in tables of six cells with differences of 10 and 20 %."""
    rng = np.random.default_rng(1)
    gains = (math.log(1.1), math.log(1.2))

    def runs(arm: str, cell: int, gain: float) -> list[RunSample]:
        values = np.exp(gain + sd * rng.standard_normal(starts))
        return [RunSample(f"{arm}{cell}-{start}", arm, start, float(value)) for start, value in enumerate(values)]

    words: list[str] = []
    for _ in range(60):
        cells = [CellRuns(runs("plain", cell, 0), runs("k3", cell, rng.choice(gains))) for cell in range(6)]
        words += [verdict.word for verdict in verdicts(compare_cells(cells, "higher"))]
    measured = np.mean([word != "inconclusive" for word in words])
    assert decided_share(Table(6, 1, starts, 2 * sd**2, gains)) == pytest.approx(measured, abs=0.15)


def test_a_simulated_table_is_judged_as_one_that_was_measured() -> None:
    """Two candidates share the baseline's runs in each of three places."""
    log_ratios = np.random.default_rng(3).normal([[0.03], [0.1], [0.0], [-0.05], [0.2], [0.08]], 0.03, (6, 3))

    def runs(arm: str, cell: int) -> list[RunSample]:
        values = np.exp(log_ratios[cell]) if arm == "k3" else np.ones(3)
        place = cell if arm == "k3" else cell // 2
        return [RunSample(f"{arm}{place}-{start}", arm, start, float(value)) for start, value in enumerate(values)]

    judged = verdicts(compare_cells([CellRuns(runs("plain", cell), runs("k3", cell)) for cell in range(6)], "higher"))
    measured = np.mean([verdict.word != "inconclusive" for verdict in judged])
    assert 0 < measured < 1
    assert _decided(log_ratios, 2) == pytest.approx(measured)


def test_a_table_has_the_same_prospect_every_time() -> None:
    """To the digit, so that an estimate that was shown does not change with the next version."""
    decided_share.cache_clear()
    tables = {
        Table(12, 1, 3, 0.003, (0.0, 0.1, 0.2)): 1 / 2,
        Table(90, 2, 2, 0.002, (0.05, 0.1)): 7 / 48,
        Table(6, 3, 4, 0.01, (0.1, -0.2)): 1 / 2,
        Table(6, 1, 2, 0.02, (0.1,)): 1 / 36,
    }
    assert [decided_share(table) for table in tables] == [pytest.approx(share) for share in tables.values()]


def figures(prospect: Prospect | None) -> tuple[Size, float, float]:
    """Cells to six digits."""
    assert prospect is not None
    return prospect.size, round(prospect.decided, 6), prospect.seconds


def test_prospects_hold_the_study_one_start_more_and_the_best_plan() -> None:
    outlook = expected(known(start=0.05, run=0.08, gain=1.2), repeats=4, start_s=300.0)
    assert figures(outlook.as_is) == (Size(4, 1), 2.583333, 2640.0)
    assert figures(outlook.one_more) == (Size(5, 1), 3.833333, 3300.0)
    assert figures(outlook.best) == (Size(6, 2), 5.0, 4320.0)
    assert outlook.basis == (
        "if ratios and their scatter are like those of 2 cells measured on this hardware before (ratios of 1.10 to "
        "1.20)"
    )
    shared = expected(known(start=0.05, run=0.08, request=0.06, gain=1.2), repeats=4, repeats_per_launch=2)
    assert figures(shared.as_is) == (Size(2, 2), 0.75, 360.0)
    assert figures(shared.one_more) == (Size(3, 2), 2.583333, 540.0)
    assert figures(shared.best) == (Size(8, 1), 5.25, 960.0)


def test_a_forecast_from_other_targets_is_called_rough() -> None:
    one = study(repeats=2)
    scatter = known(start=0.01, run=0.01)
    own = prospects(one, scatter, lambda _size: 60.0)
    others = prospects(one, scatter, lambda _size: 60.0, of_other_targets=True)
    assert own is not None
    assert others is not None
    assert (own.is_rough, "rough" in own.basis) == (False, False)
    assert others.is_rough
    assert "are like those of 2 cells of other targets measured on this hardware before" in others.basis
    assert others.basis.endswith(": a rough guess")


def test_more_starts_and_less_scatter_decide_more() -> None:
    by_starts = [decided_share(Table(12, 1, starts, 0.003, (0.0, 0.1, 0.2))) for starts in (1, 2, 3, 5, 8)]
    assert by_starts[0] == 0
    assert all(fewer <= more + 0.05 for fewer, more in pairwise(by_starts))
    by_scatter = [decided_share(Table(12, 1, 3, sd**2, (0.1, 0.2))) for sd in (0.3, 0.1, 0.03, 0.01)]
    assert by_scatter == sorted(by_scatter)
    assert (by_scatter[0] < 0.2, by_scatter[-1]) == (True, 1.0)


def test_a_study_of_one_start_decides_nothing() -> None:
    outlook = expected(known(start=0.01, run=0.01, gain=1.3), repeats=1)
    assert (outlook.cells, outlook.as_is.decided, outlook.as_is.seconds) == (6, 0.0, 120.0)
    assert outlook.one_more.seconds == 240.0
    assert outlook.best is not None
    assert outlook.best.decided >= 0.8 * 6
    assert "2 cells measured on this hardware before (ratios of 1.14 to 1.30)" in outlook.basis


def test_the_plan_repeats_the_level_that_scatters() -> None:
    starts = expected(known(start=0.04, run=0.001, gain=1.2), start_s=60.0, run_s=1.0).best
    runs = expected(known(start=0.001, run=0.04, gain=1.2), start_s=60.0, run_s=1.0).best
    assert starts is not None
    assert runs is not None
    assert starts.size.runs_per_start == 1
    assert runs.size.runs_per_start > 1
    assert runs.size.starts <= starts.size.starts


def test_more_prompts_are_advised_only_where_requests_scatter() -> None:
    few = expected(known(start=0.001, run=0.04, request=0.04, gain=1.2), start_s=300.0).best
    none = expected(known(start=0.001, run=0.04, gain=1.2), start_s=300.0).best
    assert few is not None
    assert none is not None
    assert none.size.prompts_factor == 1
    assert few.seconds <= none.seconds


def test_no_plan_is_advised_where_none_is_good_enough() -> None:
    assert expected(known(start=0.5, run=0.5), repeats=3).best is None


def test_nothing_is_predicted_without_a_candidate_or_a_known_scatter() -> None:
    assert prospects(study(arms=ARMS[:1]), known(start=0.1, run=0.1), lambda _: 1.0) is None
    unknown = known(start=None, run=0.02)
    assert prospects(study(repeats=6, repeats_per_launch=2), unknown, lambda _: 1.0) is None
    assert expected(unknown, repeats=3).as_is.decided > 0


def test_a_study_has_a_size() -> None:
    assert size_of(study(repeats=3)) == Size(3, 1)
    assert size_of(study(repeats=6, repeats_per_launch=2)) == Size(3, 2)
    assert size_of(study(repeats=4, order="fewest_launches")) == Size(1, 4)
    assert np.isclose(decided_share(Table(6, 1, 1, 0.0, (0.5,))), 0.0)


def sentences(as_is: float, one_more: float, best: Prospect | None, *, more_s: float = 720.0) -> tuple[str, str]:
    """The sentence and the advice on a study of 30 cells, 3 starts and 31 minutes."""
    size = Size(3, 1)
    outlook = Prospects(
        30, Prospect(size, as_is, 1860.0), Prospect(Size(4, 1), one_more, 1860.0 + more_s), best, "if all is as it was"
    )
    return outlook.sentence, outlook.advice


def test_prospects_are_told_whole() -> None:
    better = Prospect(Size(4, 1), 29.4, 2580.0)
    assert sentences(25.6, 28.7, better) == (
        "expect about 26 of 30 comparisons to be decided; with 12 min more: 29",
        "",  # 26 of 30 are enough, and the other plan takes longer
    )
    assert sentences(10.0, 10.4, better) == (
        "expect about 10 of 30 comparisons to be decided",
        "4 repeats would decide about 29 of 30 in 43 min.",
    )
    assert sentences(10.0, 12.0, None, more_s=60.0) == (
        "expect about 10 of 30 comparisons to be decided; with 1 min more: 12",
        "Even 8 engine starts of each arm would not decide 80 % of them.",
    )
    assert sentences(24.0, 24.0, None)[1] == ""


def test_a_cheaper_plan_is_advised_with_its_repeats_and_prompts() -> None:
    assert sentences(30.0, 30.0, Prospect(Size(2, 3, 2), 25.0, 600.0))[1] == (
        "6 repeats, 3 on each engine start, 2 times the prompts would decide about 25 of 30 in 10 min."
    )
