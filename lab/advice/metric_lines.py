"""One line for each metric that decides: what the study found by it, those with a verdict first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from lab.advice.answer import Answer, JudgedPair, OverAll
from lab.comparison.verdict import MARGIN, Judged
from lab.metrics.catalogue import BY_NAME, COST
from lab.metrics.number_format import change, percentage

#: The metrics that have a line, in this order, each with its name in it.
METRICS: Mapping[str, str] = {
    "output_tok_per_s": "Throughput",
    "tpot_p50_ms": "Median TPOT",
    "ttft_p50_ms": "Median TTFT",
    COST.name: "Cost",
}


@dataclass(frozen=True)
class Line:
    """What a study found by a metric: its surest claim, and how the comparisons came out (empty for a single one)."""

    metric: str
    word: Literal["better", "not better", "inconclusive"]  # of the arm with the surest gain
    claim: str
    tally: str = ""

    @property
    def is_decided(self) -> bool:
        """Return whether any arm has a verdict other than inconclusive."""
        return self.word != "inconclusive"

    @property
    def sentence(self) -> str:
        return f"{self.claim} {self.tally}".rstrip()


def lines(answers: Iterable[Answer]) -> list[Line]:
    """Return the line of each answer that compares anything, decided ones first, else in the given order."""
    return sorted((line(answer) for answer in answers if answer.choices), key=lambda line: not line.is_decided)


def line(answer: Answer) -> Line:
    """Return the surest claim by the answer's metric, and how its comparisons came out."""
    name = METRICS.get(answer.metric) or BY_NAME[answer.metric].label
    pairs = answer.pairs
    words: Counter[str] = Counter(pair.verdict.word for pair in pairs)
    if words["inconclusive"] == len(pairs) and not answer.over_all:
        every = "" if len(pairs) == 1 else f" in all {len(pairs)} comparisons"
        return Line(answer.metric, "inconclusive", f"{name}: inconclusive{every}.")
    is_better = words["faster"] or any(mean.word == "faster" for mean in answer.over_all)
    word: Literal["better", "not better"] = "better" if is_better else "not better"
    return Line(answer.metric, word, f"{name}{_claim(answer)}.", _tally(words, len(pairs)))


def _claim(answer: Answer) -> str:
    """Return ` at concurrency 1: 57 % lower (strict 95 % CI 15 to 78 %), E on code`, or else a usual claim."""
    if answer.headline is not None:
        return _of_cell(answer, answer.headline, answer.headline.strictly, strict=True)
    better = [pair for pair in answer.pairs if pair.verdict.word == "faster"]
    if better:
        best = max(better, key=_least_gain)
        return f"{_of_cell(answer, best, best)}; usual reading"
    means = [mean for mean in answer.over_all if mean.word == "faster"]
    if means:
        return _over_all(max(means, key=_least_mean_gain))
    slower = [pair for pair in answer.pairs if pair.verdict.word == "slower"]
    if slower:
        worst = min(slower, key=_least_gain)
        shown = "shown to be " if answer.inconclusive else ""
        return f"{_of_cell(answer, worst, worst)}; no arm is {shown}better"
    if answer.over_all:
        return _over_all(answer.over_all[0])
    return f": no arm {'is shown to differ' if answer.inconclusive else f'differs by more than {percentage(MARGIN)}'}"


def _over_all(mean: OverAll) -> str:
    moved = change(mean.ratio.value, mean.ratio.low, mean.ratio.high)
    return f" over all {mean.cells} cells: {moved}, {mean.arm}; usual reading"


def _least_mean_gain(mean: OverAll) -> float:
    """Return the lower bound of the gain of an arm that is faster: its interval lies on one side of 1."""
    low, high = mean.ratio.low, mean.ratio.high
    if low is None or high is None:
        return 0.0
    return 1 / high if mean.ratio.value < 1 else low


def _least_gain(pair: JudgedPair) -> float:
    gain = pair.gain
    return 0.0 if gain is None or gain.low is None else gain.low


def _of_cell(answer: Answer, pair: JudgedPair, judged: Judged, *, strict: bool = False) -> str:
    """Name the load by its concurrency, or by its name where another load of the workload has the same."""
    ratio = judged.ratio
    loads = {
        other.load for other in answer.pairs if (other.workload, other.concurrency) == (pair.workload, pair.concurrency)
    }
    where = f"at concurrency {pair.concurrency}" if len(loads) == 1 else f"under {pair.load}"
    moved = "no ratio" if ratio is None else change(ratio.value, ratio.low, ratio.high, strict=strict)
    on = f" on {pair.workload}" if pair.workload else ""
    return f" {where}: {moved}, {pair.arm}{on}"


def _tally(words: Mapping[str, int], pairs: int) -> str:
    """Return `7 of 12 comparisons better, 3 worse, 2 inconclusive.`; empty for a single one."""
    if pairs == 1:
        return ""
    named = {"faster": "better", "slower": "worse", "no difference": "no different", "inconclusive": "inconclusive"}
    counts = [f"{words[word]} {said}" for word, said in named.items() if words[word]]
    first, *rest = counts
    number, _, said = first.partition(" ")
    return f"{', '.join((f'{number} of {pairs} comparisons {said}', *rest))}."
