"""How many cells of a study will probably be decided, and the plan that decides most of them in the least time.

The study is simulated with the lab's own statistics (`lab.comparison`), with differences and scatter as they were
measured before. Repeating the level whose variance is largest for its price is Kalibera & Jones 2013
(doi:10.1145/2464157.2464160).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from lab.comparison.compare import Comparison
from lab.comparison.effect import Effect
from lab.comparison.moderation import Scatter, moderated
from lab.comparison.samples import Array
from lab.comparison.spread import Spread, over_blocks
from lab.comparison.verdict import verdicts
from lab.metrics.number_format import percentage
from lab.planning.components import Components
from lab.study import Study
from lab.study.duration import rough_duration
from lab.study.plan import repeats_of_a_launch

#: A plan is good if it decides this share of the cells.
WANTED_SHARE = 0.8
_STARTS = (2, 3, 4, 5, 6, 8)
_MOST_RUNS_PER_START = 4
_PROMPT_FACTORS = (1, 2, 4)
#: The number of simulated tables and the most cells per table: enough to tell a third of the cells from a half.
_TABLES, _MOST_CELLS = 12, 40
#: The standard deviation of the logarithm of a cell's noise: cells differ by about a third.
_CELLS_DIFFER = 0.3


@dataclass(frozen=True)
class Size:
    """How often a study measures each cell, and with how many times the prompts that it names."""

    starts: int  # of each arm's engine
    runs_per_start: int
    prompts_factor: int = 1


@dataclass(frozen=True)
class Prospect:
    """How much a study of a given size probably decides, and its estimated time."""

    size: Size
    decided: float  # cells, on average
    seconds: float


@dataclass(frozen=True)
class Prospects:
    """A study as it is, one engine start of each arm more, and the best plan; None where no plan is good enough."""

    cells: int
    as_is: Prospect
    one_more: Prospect
    best: Prospect | None
    basis: str
    is_rough: bool = False

    @property
    def sentence(self) -> str:
        """State what the study will probably decide, and what a little more time would."""
        now, more = round(self.as_is.decided), round(self.one_more.decided)
        text = f"expect about {now} of {self.cells} comparisons to be decided"
        if more > now:
            longer = rough_duration(self.one_more.seconds - self.as_is.seconds)
            text += f"; with {longer} more: {more}"
        return text

    @property
    def advice(self) -> str:
        """Recommend the plan that decides most of the cells in the least time; empty if the study is as good."""
        is_good = self.as_is.decided >= WANTED_SHARE * self.cells
        if is_good and (self.best is None or self.as_is.seconds <= self.best.seconds):
            return ""
        if self.best is None:
            return f"Even {max(_STARTS)} engine starts of each arm would not decide {percentage(WANTED_SHARE)} of them."
        size = self.best.size
        parts = [f"{size.starts * size.runs_per_start} repeats"]
        parts += [f"{size.runs_per_start} on each engine start"] * (size.runs_per_start > 1)
        parts += [f"{size.prompts_factor} times the prompts"] * (size.prompts_factor > 1)
        return (
            f"{', '.join(parts)} would decide about {self.best.decided:.0f} of {self.cells} in "
            f"{rough_duration(self.best.seconds)}."
        )


def size_of(study: Study) -> Size:
    """Return how often the study measures each cell."""
    runs_per_start = repeats_of_a_launch(study.order, study.repeats_per_launch, study.repeats)
    return Size(math.ceil(study.repeats / runs_per_start), min(study.repeats, runs_per_start))


def prospects(
    study: Study, components: Components, seconds: Callable[[Size], float], *, of_other_targets: bool = False
) -> Prospects | None:
    """Predict what the study will decide; None without a candidate, or if the scatter at its size is unknown.

    `of_other_targets`: the components are not of the study's target, so that the forecast is rough.

    `seconds` estimates the time of the study at a size. Sizes differ in both time and scatter, so the cheapest
    good one is found by trying all that are sensible.
    """
    candidates = len(study.arms) - 1
    cells = candidates * len(study.workloads) * len(study.loads)
    if not cells:
        return None
    prompts = len(study.loads) / sum(1 / load.num_prompts for load in study.loads)

    def prospect(size: Size) -> Prospect | None:
        variance = components.of_block(size.runs_per_start, prompts * size.prompts_factor)
        if variance is None:
            return None
        share = decided_share(Table(cells, candidates, size.starts, variance, components.gains))
        return Prospect(size, share * cells, seconds(size))

    mine = size_of(study)
    as_is, one_more = prospect(mine), prospect(Size(mine.starts + 1, mine.runs_per_start))
    if as_is is None or one_more is None:
        return None
    tried = (plan for size in _sizes(components) if (plan := prospect(size)) is not None)
    good = [plan for plan in tried if plan.decided >= WANTED_SHARE * cells]
    best, basis = min(good, key=lambda plan: plan.seconds, default=None), _basis(components, is_rough=of_other_targets)
    return Prospects(cells, as_is, one_more, best, basis, is_rough=of_other_targets)


def _sizes(components: Components) -> Iterator[Size]:
    """Yield the sizes to try; more runs or prompts only if their scatter is known apart from that of engine starts."""
    for runs in range(1, 1 + (1 if components.start is None else _MOST_RUNS_PER_START)):
        for factor in _PROMPT_FACTORS[: 1 if components.request is None else None]:
            for starts in _STARTS:
                yield Size(starts, runs, factor)


def _basis(components: Components, *, is_rough: bool) -> str:
    gains, of = np.exp(components.gains), " of other targets" if is_rough else ""
    return (
        f"if ratios and their scatter are like those of {gains.size} cells{of} "
        f"measured on this hardware before (ratios of {gains.min():.2f} to {gains.max():.2f})"
        f"{': a rough guess' * is_rough}"
    )


@dataclass(frozen=True)
class Table:
    """The expected table of cells. `variance` is that of a log ratio on one pair of engine starts."""

    cells: int
    candidates: int  # share the baseline's runs
    starts: int
    variance: float
    gains: tuple[float, ...]  # log ratios, one of which each cell has


@functools.lru_cache(1024)
def decided_share(table: Table) -> float:
    """Return the share of cells that get a verdict, on average over simulated tables."""
    if table.starts < 2:
        return 0.0
    rng = np.random.default_rng(table.starts)
    return float(np.mean([_decided(_simulated(rng, table), table.candidates) for _ in range(_TABLES)]))


def _simulated(rng: np.random.Generator, table: Table) -> Array:
    """Log ratios of shape (cells, starts)."""
    groups = np.arange(min(table.cells, max(_MOST_CELLS // table.candidates, 1) * table.candidates)) // table.candidates
    sd = math.sqrt(table.variance / 2) * np.exp(_CELLS_DIFFER * rng.standard_normal(groups[-1] + 1))
    baseline = sd[:, None] * rng.standard_normal((sd.size, table.starts))
    candidate = sd[groups, None] * rng.standard_normal((groups.size, table.starts))
    return np.asarray(rng.choice(table.gains, groups.size)[:, None] + candidate - baseline[groups])


def _decided(log_ratios: Array, candidates: int) -> float:
    """Return the share of a table's cells with a verdict, by the steps of `compare_cells`, on arrays."""
    cells, starts = log_ratios.shape
    own = over_blocks(log_ratios)
    scatters = moderated((own.blocks * starts).tolist(), [starts - 1.0] * cells, [candidates] * cells)
    table = [
        _comparison(float(mean), starts, float(variance), scatter)
        for mean, variance, scatter in zip(log_ratios.mean(axis=1), own.blocks, scatters, strict=True)
    ]
    return float(np.mean([verdict.word != "inconclusive" for verdict in verdicts(table)]))


def _comparison(mean: float, starts: int, own: float, scatter: Scatter | None) -> Comparison:
    variance, df = (own, starts - 1.0) if scatter is None else (scatter.variance / starts, scatter.df)
    spread = Spread(np.asarray(variance), df, np.asarray(0.0), math.inf)
    return Comparison("higher", starts, None, None, None, Effect(mean, spread), "")
