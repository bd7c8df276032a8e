"""The line of a metric: a claim that its verdicts back, and decided metrics before inconclusive ones."""

from __future__ import annotations

import pytest

from lab.advice.answer import Answer, JudgedPair, OverAll, answer
from lab.advice.metric_lines import line, lines
from lab.comparison.effect import Interval
from lab.metrics.catalogue import COST
from tests.lab.advice.judged_pairs import judged

TPOT = "tpot_p50_ms"


def of(*pairs: JudgedPair, metric: str = TPOT, **changes: object) -> Answer:
    return answer(pairs, metric=metric, baseline="no draft", **changes)  # type: ignore[arg-type]


QUICK = judged("E", 1, "faster", (0.43, 0.22, 0.85), metric=TPOT)
OPEN = judged("E", 4, "inconclusive", (0.9, 0.7, 1.1), metric=TPOT)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (of(QUICK), "Median TPOT at concurrency 1: 57 % lower (strict 95 % CI 15 to 78 %), E on code."),
        (
            of(QUICK, OPEN, judged("E", 16, "slower", (1.2, 1.1, 1.3), metric=TPOT)),
            ("Median TPOT at concurrency 1: 57 % lower (strict 95 % CI 15 to 78 %), E on code. 1 of 3 comparisons "
            "better, 1 worse, 1 inconclusive."),
        ),
        (
            of(judged("E", 1, "faster", (0.43, 0.22, 0.85), metric=TPOT, strict="inconclusive")),
            "Median TPOT at concurrency 1: 57 % lower (95 % CI 15 to 78 %), E on code; usual reading.",
        ),
        (of(OPEN), "Median TPOT: inconclusive."),
        (of(OPEN, OPEN), "Median TPOT: inconclusive in all 2 comparisons."),
        (
            of(OPEN, OPEN, over_all=[OverAll("E", 2, Interval(0.8, 0.7, 0.9), "faster")]),
            ("Median TPOT over all 2 cells: 20 % lower (95 % CI 10 to 30 %), E; usual reading. 2 of 2 comparisons "
            "inconclusive."),
        ),
        (
            of(judged("E", 16, "slower", (1.2, 1.1, 1.3), metric=TPOT)),
            "Median TPOT at concurrency 16: 20 % higher (95 % CI 10 to 30 %), E on code; no arm is better.",
        ),
        (
            of(judged("E", 16, "no difference", (1.0, 0.99, 1.01), metric=TPOT)),
            "Median TPOT: no arm differs by more than 2 %.",
        ),
        (
            of(OPEN, judged("E", 16, "no difference", (1.0, 0.99, 1.01), metric=TPOT)),
            "Median TPOT: no arm is shown to differ. 1 of 2 comparisons no different, 1 inconclusive.",
        ),
        (
            of(OPEN, judged("E", 16, "slower", (1.2, 1.1, 1.3), metric=TPOT)),
            ("Median TPOT at concurrency 16: 20 % higher (95 % CI 10 to 30 %), E on code; no arm is shown to be "
            "better. 1 of 2 comparisons worse, 1 inconclusive."),
        ),
        (
            of(judged("E", 4, "faster", (2.1, 1.9, 2.3), workload="", load="burst"),
               judged("E", 4, "slower", (0.9, 0.8, 0.95), workload="", load="steady"), metric="output_tok_per_s"),
            ("Throughput under burst: 2.10 times as high (strict 95 % CI 1.90 to 2.30), E. 1 of 2 comparisons better, "
            "1 worse."),
        ),
    ],
)  # fmt: skip
def test_a_line_has_the_surest_claim_and_how_the_comparisons_came_out(found: Answer, expected: str) -> None:
    assert line(found).sentence == expected


def test_decided_metrics_come_before_inconclusive_ones() -> None:
    throughput, cost = of(judged("E", 1, "inconclusive"), metric="output_tok_per_s"), of(QUICK, metric=COST.name)
    found = lines([throughput, of(QUICK), of(metric="ttft_p50_ms"), cost])
    assert [line.metric for line in found] == [TPOT, COST.name, "output_tok_per_s"]
    assert [line.is_decided for line in found] == [True, True, False]
