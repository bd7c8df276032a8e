"""The answer of a study: which arm to enable where, how sure that is, and what is inconclusive. From verdicts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from lab.comparison.effect import Interval
from lab.comparison.verdict import Control, Judged, Verdict

Action = Literal["enable", "leave off", "inconclusive"]


@dataclass(frozen=True)
class JudgedPair(Judged):
    """A candidate against the baseline in one cell; `strict` is its verdict on the strict reading."""

    workload: str
    load: str
    concurrency: int
    arm: str
    strict: Verdict

    @property
    def strictly(self) -> Judged:
        """Return the pair with the verdict of the strict reading."""
        return Judged(self.comparison, self.strict)

    @property
    def is_inconclusive(self) -> bool:
        return self.verdict.word == "inconclusive"

    @property
    def more_repeats(self) -> int | None:
        """Return how many more repeats would decide it, with engine starts of their own if the verdict asks for more of
        those; None if no number is known to.
        """
        starts = self.verdict.more_starts
        return self.verdict.more_repeats if starts is None else starts * self.comparison.repeats_a_block

    def is_decidedly_behind(self, other: JudgedPair) -> bool:
        """Return whether this interval of the gain lies wholly below the other one."""
        ours, theirs = self.gain, other.gain
        if ours is None or theirs is None or ours.high is None or theirs.low is None:
            return False
        return ours.high < theirs.low


@dataclass(frozen=True)
class Choice:
    """What the verdicts say for one workload and load.

    `best` beat the baseline, and none of them is decidedly behind another: if there are several, the differences
    between them are inconclusive. `behind` beat it too, but decidedly less than one of the best; `rejected` are slower
    or no different.
    """

    workload: str
    load: str
    concurrency: int
    best: tuple[JudgedPair, ...]
    behind: tuple[JudgedPair, ...]
    rejected: tuple[JudgedPair, ...]
    inconclusive: tuple[JudgedPair, ...]

    @property
    def action(self) -> Action:
        """Return `leave off` only where no arm is inconclusive."""
        if self.best:
            return "enable"
        return "inconclusive" if self.inconclusive else "leave off"

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms to enable, in the study's order."""
        return tuple(pair.arm for pair in self.best)


@dataclass(frozen=True)
class OverAll:
    """An arm over all of its cells: the geometric mean of their ratios, with its verdict among those of the arms."""

    arm: str
    cells: int
    ratio: Interval
    word: Literal["faster", "slower"]


@dataclass(frozen=True)
class InconclusiveCells:
    """The inconclusive cells, and what would decide them.

    `more_repeats` would decide most of the inconclusive cells; None if more repeats alone would not, or if most have no
    interval yet. `repeats`: how many they have at most.
    """

    cells: int
    without_ratio: int
    without_interval: int  # but with a ratio
    more_repeats: int | None
    repeats: int


@dataclass(frozen=True)
class Answer:
    """A study's answer by one metric. `choices` are in the order of workloads, then of concurrency.

    `headline` is the single claim made on the strict reading: of the pairs that are better there, the pair with the
    greatest lower bound. `strict` is the reading of all other claims. `of_speculation`: every candidate speculates and
    the baseline does not, so that to keep the baseline means to leave speculation off. Controls are not among the
    choices: they say how far runs of the study differ by themselves.
    """

    metric: str
    baseline: str
    strict: bool
    of_speculation: bool
    choices: tuple[Choice, ...]
    headline: JudgedPair | None
    inconclusive: InconclusiveCells | None  # None if every cell is decided
    controls: tuple[Control, ...] = ()
    over_all: tuple[OverAll, ...] = ()  # only arms with several cells and a verdict

    @property
    def cells(self) -> int:
        """How many pairs were judged."""
        return len(self.pairs)

    @property
    def pairs(self) -> tuple[JudgedPair, ...]:
        """Return the judged pairs, in the order of the choices."""
        return tuple(
            pair
            for choice in self.choices
            for pair in (*choice.best, *choice.behind, *choice.rejected, *choice.inconclusive)
        )

    @property
    def stretches(self) -> list[tuple[Choice, ...]]:
        """Return the choices; neighbouring loads of a workload are grouped if they name the same arms."""
        grouped = groupby(self.choices, lambda choice: (choice.workload, choice.action, frozenset(choice.arms)))
        return [tuple(choices) for _, choices in grouped]


def answer(
    pairs: Sequence[JudgedPair],
    *,
    metric: str,
    baseline: str,
    strict: bool = False,
    of_speculation: bool = True,
    controls: Sequence[Control] = (),
    over_all: Sequence[OverAll] = (),
) -> Answer:
    """Make a study's answer.

    Nothing is claimed from a ratio alone: an arm is enabled only where its verdict is that it beats the baseline.
    """
    keys = dict.fromkeys((pair.workload, pair.load, pair.concurrency) for pair in pairs)
    workloads = list(dict.fromkeys(workload for workload, _, _ in keys))
    ordered = sorted(keys, key=lambda key: (workloads.index(key[0]), key[2]))
    choices = tuple(
        _choice(*key, [pair for pair in pairs if (pair.workload, pair.load, pair.concurrency) == key])
        for key in ordered
    )
    inconclusive = _inconclusive_cells(pairs)
    headline, noise, means = _headline(pairs), tuple(controls), tuple(over_all)
    return Answer(metric, baseline, strict, of_speculation, choices, headline, inconclusive, noise, means)


def _choice(workload: str, load: str, concurrency: int, pairs: Sequence[JudgedPair]) -> Choice:
    better = [pair for pair in pairs if pair.verdict.word == "faster"]
    best = [pair for pair in better if not any(map(pair.is_decidedly_behind, better))]
    return Choice(
        workload,
        load,
        concurrency,
        best=tuple(best),
        behind=tuple(pair for pair in better if pair not in best),
        rejected=tuple(pair for pair in pairs if pair.verdict.word in ("slower", "no difference")),
        inconclusive=tuple(pair for pair in pairs if pair.is_inconclusive),
    )


def _headline(pairs: Sequence[JudgedPair]) -> JudgedPair | None:
    gains = [(pair.strictly.gain, pair) for pair in pairs if pair.strict.word == "faster"]
    sure = [(gain.low, pair) for gain, pair in gains if gain and gain.low]
    return max(sure, key=lambda bounded: bounded[0])[1] if sure else None


def _inconclusive_cells(pairs: Sequence[JudgedPair]) -> InconclusiveCells | None:
    inconclusive = [pair for pair in pairs if pair.is_inconclusive]
    if not inconclusive:
        return None
    needed = sorted(pair.more_repeats for pair in inconclusive if pair.more_repeats is not None)
    most = len(inconclusive) // 2  # the index of the first number that is enough for more than half of them
    more = needed[most] if most < len(needed) else None
    gains = [pair.gain for pair in inconclusive]
    without_interval = sum(gain is not None and gain.low is None for gain in gains)
    repeats = max(pair.comparison.repeats or pair.comparison.blocks for pair in inconclusive)
    return InconclusiveCells(len(inconclusive), gains.count(None), without_interval, more, repeats)
