"""Variances of like cells, each moderated by the others: why three repeats of a table can decide.

Three repeats give a cell's own variance two degrees of freedom; thirty such cells together show well how much runs
differ. As in limma (Smyth 2004, doi:10.2202/1544-6115.1027) the true variances of the cells are taken as
draws from one distribution, here log-normal with a heavy share for wild cells (Phipson et al. 2016,
doi:10.1214/16-AOAS920). Its centre and width are not estimated and plugged in, which is overconfident with few cells:
every centre and width on a grid counts by how well it explains all the cells. So does every slope with the logarithm of
the concurrency, as in limma-trend (Law et al. 2014, doi:10.1186/gb-2014-15-2-r29), if the table has loads enough.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lab.comparison.samples import Array, connected

#: With fewer cells than this, or fewer degrees of freedom in them, each cell stands on its own scatter.
LEAST_CELLS, LEAST_DF = 3, 6
#: The share of wild cells, and that in a table of two repeats, where Student's t with one degree of freedom is cautious
#: enough; and the standard deviation of the logarithm of their variance. These, the two below and the grid were chosen
#: by simulation (tests/lab/comparison/simulations), so that promises hold in every world there.
_WILD_SHARE, _WILD_SHARE_OF_TWO, _WILD_SD = 0.2, 0.1, 2.5
#: The most that one cell counts when centre and width are weighed. Below 1 for caution.
_CAUTION = 0.6
#: Variances of two ratios that share a baseline's runs correlate by the square of one half.
_SHARED = 0.25
#: Smaller variances (values that agree to 12 digits) are the rounding of equal repeats, not scatter.
_ROUNDING = 1e-24
#: The history of the hardware counts for at most this many cells: another study's noise is similar, not the same.
_MOST_HISTORY = 6.0
#: Standard deviations of the logarithm of the variance between cells, and that at which a width counts by half.
_WIDTHS, _USUAL_WIDTH = np.array([0.05, 0.2, 0.4, 0.65, 1.0, 1.5, 2.2]), 0.7
_LOG_VARIANCES = np.arange(-16.0, 16.01, 0.25)
_CENTRES = np.arange(-9.0, 9.01, 0.5)
#: Slopes of the log variance with the log of the concurrency, where there are so many cells on so many loads; how much
#: likelier none is at first than any of them, and the one that counts by e to the -1/2.
_SLOPES, _FLAT = np.array([-1.2, -0.8, -0.4, 0.0, 0.4, 0.8, 1.2]), np.zeros(1)
_LEAST_SLOPED, _LEAST_LOADS, _FLAT_ODDS, _USUAL_SLOPE = 8, 3, 9.0, 0.5
#: OpenBLAS starts threads for products of more than 2**18 numbers; `_grid` has 33,411.
_ROWS = 7


@dataclass(frozen=True)
class Scatter:
    """The variance of one block's log ratio in a cell, how well it is known, and in words what it rests on."""

    variance: float
    df: float
    source: str


def moderated(
    variances: Sequence[float],
    dfs: Sequence[float],
    sharing: Sequence[int],
    history: Sequence[Sequence[float]] = (),
    *,
    controls: Sequence[bool] = (),
    repeated: Sequence[float] = (),
    loads: Sequence[float] = (),
    looked_at: bool = False,
) -> list[Scatter | None]:
    """Return the moderated scatter of each cell; None where nothing moderates the cell's own.

    `variances` are those of the log ratios of a cell's blocks, each with its `dfs`: blocks - 1, and 0 with one block.
    `sharing` is how many cells share a cell's baseline runs. `history` holds the values that one arm had in the repeats
    of an earlier cell; `controls` says which cells are controls, for the words; `repeated` in how many cells the noise
    of one is found again (`repetitions`); `loads` the concurrency of each. `looked_at` after every repeat: the first
    look, at two of them, is as cautious as later ones. A cell whose repeats are all the same keeps its variance of 0.
    """
    earlier, earlier_dfs = _of_history(history)
    own, own_dfs = np.array(variances, dtype=np.float64), np.array(dfs, dtype=np.float64)
    every, every_dfs = np.concatenate((own, earlier)), np.concatenate((own_dfs, earlier_dfs))
    every[every < _ROUNDING] = 0.0
    own = every[: own.size]
    shared = 1 + _SHARED * (np.array(sharing, dtype=np.float64) - 1)
    again = np.array(repeated, dtype=np.float64) if len(repeated) else np.ones(own.size)
    weights = np.concatenate(
        (
            np.minimum(_CAUTION, 1 / again) / shared,
            np.full(earlier.size, _CAUTION * min(1.0, _MOST_HISTORY / max(earlier.size, 1))),
        )
    )
    is_known = (every > 0) & (every_dfs > 0)
    if is_known.sum() < LEAST_CELLS or every_dfs[is_known].sum() < LEAST_DF:
        return [None] * own.size
    own_is_known = is_known[: own.size]
    log_loads = np.log(np.array(loads, dtype=np.float64)) if len(loads) else np.zeros(own.size)
    placed = np.concatenate((log_loads, np.full(earlier.size, log_loads.mean())))
    sloped = len(set(log_loads[own_is_known])) >= _LEAST_LOADS and own_is_known.sum() >= _LEAST_SLOPED
    control = np.array(controls, dtype=np.bool_) if len(controls) else np.zeros(own.size, dtype=np.bool_)
    of_two = own_dfs.max(initial=0.0, where=~control) == 1 and not looked_at
    wild = _WILD_SHARE_OF_TWO if of_two else _WILD_SHARE
    posterior, posterior_dfs = _posterior(
        every, every_dfs, is_known, weights, placed, slopes=_SLOPES if sloped else _FLAT, wild=wild
    )
    before = int(is_known[own.size :].sum())
    counts = int((own_is_known & ~control).sum()), int((own_is_known & control).sum())
    sources = [
        _source(counts[0] - int(itself and not alike), counts[1] - int(itself and alike), before)
        for itself, alike in zip(own_is_known, control, strict=True)
    ]
    certain = (own_dfs > 0) & (own <= 0)
    return [
        None if alone else Scatter(float(variance), float(df), source)
        for alone, variance, df, source in zip(
            certain, posterior[: own.size], posterior_dfs[: own.size], sources, strict=True
        )
    ]


def _source(cells: int, controls: int, earlier: int) -> str:
    """For example `the scatter of 15 like cells, 8 controls and 40 cells measured before`."""
    counted = ((cells, "like cell", ""), (controls, "control", ""), (earlier, "cell", " measured before"))
    parts = [f"{number} {noun}{'s' * (number != 1)}{more}" for number, noun, more in counted if number]
    return f"the scatter of {' and '.join([', '.join(parts[:-1])] * (len(parts) > 1) + parts[-1:])}"


def _of_history(cells: Sequence[Sequence[float]]) -> tuple[Array, Array]:
    """Return variances of a log ratio of two runs, twice that of one run, and their degrees of freedom."""
    logs = [np.log(values) for values in cells if len(values) >= 2 and min(values) > 0]
    return (
        np.array([2 * values.var(ddof=1) for values in logs], dtype=np.float64),
        np.array([values.size - 1 for values in logs], dtype=np.float64),
    )


def _posterior(
    variances: Array,
    dfs: Array,
    is_known: NDArray[np.bool_],
    weights: Array,
    log_loads: Array,
    *,
    slopes: Array,
    wild: float,
) -> tuple[Array, Array]:
    """Return each cell's variance and degrees of freedom, so that Student's t reflects how well the variance is known.

    That is the scaled inverse chi-squared distribution whose logarithm has the posterior's mean and variance, over all
    slopes with load.
    """
    away = log_loads - log_loads[is_known].mean()
    fits = [_fit(variances, dfs, is_known, weights, slope * away, wild=wild) for slope in slopes]
    evidence = np.array([fit[0] for fit in fits]) + np.where(slopes == 0, math.log(_FLAT_ODDS), 0.0)
    evidence -= (slopes / _USUAL_SLOPE) ** 2 / 2
    share = np.exp(evidence - evidence.max())[:, None] / np.exp(evidence - evidence.max()).sum()
    means, spreads = (np.array([fit[part] for fit in fits]) for part in (1, 2))
    mean = (share * means).sum(axis=0)
    half = _inverse_trigamma(np.maximum((share * (spreads + (means - mean) ** 2)).sum(axis=0), 1e-6))
    return np.exp(mean + special.digamma(half) - np.log(half)), 2 * half


def _fit(
    variances: Array, dfs: Array, is_known: NDArray[np.bool_], weights: Array, trend: Array, *, wild: float
) -> tuple[float, Array, Array]:
    """The log evidence for a trend of the log variances; given it, mean and variance of each cell's log variance."""
    usual, prior, by_log_variance, log_prior = _grid(wild)
    flat = variances[is_known] * np.exp(-trend[is_known])
    centre = np.log(flat).mean()
    likelihood = np.ones((variances.size, _LOG_VARIANCES.size))
    logs = -(dfs[is_known, None] / 2) * (_LOG_VARIANCES + flat[:, None] * np.exp(-centre - _LOG_VARIANCES))
    most = logs.max(axis=1, keepdims=True)
    likelihood[is_known] = np.exp(logs - most)
    explained = _product(likelihood, by_log_variance) + np.finfo(np.float64).tiny  # (cells, centres and widths)
    weighed = np.log(explained[is_known]) * weights[is_known, None]
    share = np.exp(weighed.sum(axis=0) + log_prior - _log_of_sum(weighed.sum(axis=0) + log_prior))
    cells = likelihood * _product(share / explained, prior)
    # nothing hints at a wild cell; allowing for one anyway would forbid any claim
    cells[dfs <= 0] = _product(share[None, :], usual)
    cells /= cells.sum(axis=1, keepdims=True)
    mean = (cells * _LOG_VARIANCES).sum(axis=1)
    spread = (cells * _LOG_VARIANCES**2).sum(axis=1) - mean**2
    density = most[:, 0] - dfs[is_known] / 2 * (centre + trend[is_known])
    evidence = _log_of_sum(weighed.sum(axis=0) / _CAUTION + log_prior) + (density * weights[is_known]).sum() / _CAUTION
    return float(evidence), centre + mean + trend, spread


def _product(left: Array, right: Array) -> Array:
    """`left @ right` in blocks of rows for which BLAS starts no threads: at these sizes they would only wait for each
    other.
    """
    return np.concatenate([left[row : row + _ROWS] @ right for row in range(0, len(left), _ROWS)])


def _log_of_sum(logs: Array) -> float:
    """The logarithm of the sum of exponentials."""
    most = float(logs.max())
    return most + math.log(float(np.exp(logs - most).sum()))


@functools.cache
def _grid(wild_share: float) -> tuple[Array, Array, Array, Array]:
    """Return the likelihood of each log variance by centre and width, without and with wild cells, and the log prior.

    The first two have shape (centres and widths, log variances). The second is also returned transposed,
    because BLAS takes twice as long for a product with a transposed view. The prior has shape (centres and widths,).
    """
    away = _LOG_VARIANCES - _CENTRES[:, None]

    def normal(width: float) -> Array:
        density = np.exp(-0.5 * (away / width) ** 2)
        return np.asarray(density / density.sum(axis=1, keepdims=True))

    usual = np.concatenate([normal(float(width)) for width in _WIDTHS])
    wild = np.concatenate([normal(float(np.hypot(width, _WILD_SD))) for width in _WIDTHS])
    by_width = -np.log1p((_WIDTHS / _USUAL_WIDTH) ** 2)
    prior = (1 - wild_share) * usual + wild_share * wild
    return usual, prior, np.ascontiguousarray(prior.T), np.repeat(by_width, _CENTRES.size)


def _inverse_trigamma(values: Array) -> Array:
    """Invert trigamma by Newton's steps on 1 / trigamma, like limma's `trigammaInverse`, for values of 1e-6 to 1e3."""
    root = 0.5 + 1 / values
    for _ in range(20):
        trigamma = special.zeta(2, root)
        step = trigamma * (1 - trigamma / values) / (-2 * special.zeta(3, root))
        root = root + step
        if (np.abs(step) <= 1e-14 * root).all():
            break
    return np.asarray(root, dtype=np.float64)


def repetitions(starts: Sequence[AbstractSet[Hashable]], deviations: Sequence[Array]) -> list[float]:
    """Return for each cell in how many cells its noise is found again: 1 if the runs' own noise is all there is.

    `starts` are the candidate's engine starts, and `deviations` those of the cell's log ratios from their mean, block
    by block (from 0 of a control). If two cells on the same starts correlate by r, their variances do by r squared.
    """
    groups = connected([set(starts_of_block) for starts_of_block in starts])
    again = _correlation([[deviations[index] for index in group] for group in groups]) ** 2
    factors = [1.0] * len(starts)
    for group in groups:
        for index in group:
            factors[index] = 1 + again * (len(group) - 1)
    return factors


def _correlation(groups: Sequence[Sequence[Array]]) -> float:
    """Return the mean correlation of cells on the same starts, over all pairs of equally many blocks; at least 0."""
    totals, counts = [0.0, 0.0], [0, 0]  # of one degree of freedom, and of more
    for group in groups:
        for blocks in {deviations.size for deviations in group}:
            alike = [deviations for deviations in group if deviations.size == blocks]
            directions = np.array(
                [
                    deviations / math.sqrt(squares)
                    for deviations in alike
                    if (squares := float((deviations**2).sum())) >= _ROUNDING
                ]
            )
            if len(directions) > 1:
                totals[blocks > 2] += (float((directions.sum(axis=0) ** 2).sum()) - len(directions)) / 2
                counts[blocks > 2] += len(directions) * (len(directions) - 1) // 2
    signs, mean = (total / max(count, 1) for total, count in zip(totals, counts, strict=True))
    # One degree of freedom leaves only signs, whose mean is 2 / pi times the arcsine of the correlation.
    weighed = counts[0] * math.sin(math.pi / 2 * signs) + counts[1] * mean
    return max(weighed / max(sum(counts), 1), 0.0)
