"""A pair of arms as `lab.comparison` would judge it."""

from __future__ import annotations

from lab.advice.answer import JudgedPair
from lab.comparison.compare import Comparison
from lab.comparison.effect import Interval
from lab.comparison.verdict import Verdict, Word
from lab.metrics.catalogue import better


def judged(
    arm: str,
    concurrency: int,
    word: Word,
    ratio: tuple[float, float, float] | None = (1.4, 1.3, 1.5),
    *,
    strict: Word | None = None,
    workload: str = "code",
    metric: str = "output_tok_per_s",
    more: int | None = None,
    starts: int | None = None,
    load: str | None = None,
    repeats: int = 3,
) -> JudgedPair:
    """`more` repeats, or `starts` more engine starts, would decide it; its repeats are on three starts."""
    interval = None if ratio is None else Interval(*ratio)
    comparison = Comparison(better(metric), 3, None, interval, None, None, f"{repeats} repeats", repeats=repeats)
    strictly = Verdict(strict or word, None, None, None)
    verdict = Verdict(word, None, None, more, more_starts=starts)
    return JudgedPair(comparison, verdict, workload, load or f"c{concurrency}", concurrency, arm, strictly)
