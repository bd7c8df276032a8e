"""A claimed ratio is set against the interval that the verdict stands on."""

from __future__ import annotations

import pytest

from lab.advice.claim import Finding, judge
from lab.comparison.verdict import Word
from tests.lab.advice.judged_pairs import judged


@pytest.mark.parametrize(
    ("claimed", "word", "ratio", "finding"),
    [
        (2.0, "faster", (1.48, 1.36, 1.60), "refuted"),
        (1.5, "faster", (1.48, 1.36, 1.60), "consistent"),
        (1.2, "faster", (1.48, 1.36, 1.60), "exceeded"),
        (2.0, "inconclusive", (1.77, 0.9, 2.4), "inconclusive"),
        (2.0, "inconclusive", (1.1, 0.9, 1.4), "refuted"),
        (2.0, "inconclusive", None, "inconclusive"),
        (1.01, "no difference", (1.0, 0.99, 1.02), "consistent"),
    ],
)
def test_a_claim_is_refuted_only_by_a_whole_interval(
    claimed: float, word: Word, ratio: tuple[float, float, float] | None, finding: Finding
) -> None:
    pair = judged("draft", 1, word, ratio)
    assert judge(claimed, pair) == finding


def test_of_a_latency_a_lower_ratio_is_more() -> None:
    pair = judged("draft", 1, "faster", (0.7, 0.65, 0.75), metric="ttft_p50_ms")
    found = [judge(claimed, pair) for claimed in (0.5, 0.7, 0.9)]
    assert found == ["refuted", "consistent", "exceeded"]
