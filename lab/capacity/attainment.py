"""Where the share of requests within the SLO crosses the required share, estimated from trials.

The share of requests that miss the SLO is modelled as `floor + (allowed - floor) * (load / capacity) ** steepness`:
near to the law of waiting times in queues, and a step where `steepness` is large. Requests of one run share its busy
moments, so the misses of a run scatter more than by the binomial distribution: they are beta-binomial. A run whose
misses far exceed the allowed share counts only as "far beyond": there a server follows another law. Bayes' rule is
computed on a grid of all unknowns.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from lab.capacity.early_end import far_beyond
from lab.comparison.effect import CONFIDENCE

Array = NDArray[np.float64]


_STEEPNESS = np.geomspace(3.0, 300.0, 9)
_STEEPNESS_PRIOR = np.exp(-0.5 * (np.log(_STEEPNESS / 20.0) / 1.2) ** 2)
#: The share that misses the SLO under any load, as a part of the allowed share.
_FLOORS, _FLOORS_PRIOR = np.array([0.0, 0.3]), np.array([0.75, 0.25])
#: Correlation of two requests of one run in whether they miss the SLO.
_CORRELATIONS = np.array([0.004, 0.015, 0.05, 0.15, 0.4])
_CORRELATIONS_PRIOR = np.array([1.0, 1.5, 2.0, 1.5, 1.0])
#: Standard deviation of the logarithm of the capacity between repeats.
_BETWEEN = np.array([0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16])
_BETWEEN_PRIOR = 1 / (1 + (_BETWEEN / 0.02) ** 2)
#: Logarithms of shares of misses at which likelihoods are tabulated.
_LOG_SHARES = np.linspace(math.log(1e-6), math.log(0.995), 240)
_COARSE, _FINE = 64, 101
#: How far beyond the loads tried the capacity may lie, as a logarithm.
_BEYOND = math.log(2.0)
_NEGLIGIBLE = 1e-5
#: No server follows the law exactly, so trials count for a little less than they would if one did.
_CAUTION = 0.75


@dataclass(frozen=True)
class Observation:
    """A trial: `within` of its `planned` requests met the SLO. `load` is a request rate or a concurrency."""

    load: float
    planned: int
    within: int
    repeat: int = 0


@dataclass(frozen=True, eq=False)
class Posterior:
    """The probability distribution of a capacity, cumulated at a grid of log loads."""

    log_loads: Array
    cumulated: Array

    def quantile(self, probability: float) -> float:
        return math.exp(np.interp(probability, self.cumulated, self.log_loads))

    @property
    def interval(self) -> tuple[float, float, float]:
        """Return the median and the bounds of the interval at CONFIDENCE."""
        tail = (1 - CONFIDENCE) / 2
        return self.quantile(0.5), self.quantile(tail), self.quantile(1 - tail)


def of_repeat(trials: Sequence[Observation], repeat: int, share: float) -> Posterior:
    """Estimate the capacity in one repeat from its own trials, with the law of misses estimated from all trials."""
    return _of_repeat(tuple(trials), repeat, share)


@functools.lru_cache(16)  # the next trial and the progress both need it
def _of_repeat(trials: tuple[Observation, ...], repeat: int, share: float) -> Posterior:
    curves = _Curves(trials, share)
    others = curves.evidence([other for other in curves.repeats if other != repeat])
    posterior = np.einsum("ct,t->c", curves.likelihood(repeat), others)
    return _posterior(curves.log_loads, posterior)


def of_all(trials: Sequence[Observation], share: float) -> Posterior:
    """Estimate the capacity over all repeats, which differ from each other by an unknown amount.

    A single repeat cannot show how much repeats differ: its interval is that of the one engine start.
    """
    curves = _Curves(trials, share)
    likelihoods = [curves.likelihood(repeat) for repeat in curves.repeats]
    if len(likelihoods) == 1:
        return _posterior(curves.log_loads, np.einsum("ct,t->c", likelihoods[0], curves.prior))
    away = curves.log_loads[:, None] - curves.log_loads[None, :]
    posterior = np.zeros(curves.log_loads.size)
    for between, weight in zip(_BETWEEN, _BETWEEN_PRIOR, strict=True):
        spread = np.exp(-0.5 * (away / between) ** 2)
        spread /= spread.sum(axis=0).max()
        product = curves.prior * weight
        for likelihood in likelihoods:
            product = product * (spread @ likelihood)
        posterior += product.sum(axis=1)
    return _posterior(curves.log_loads, posterior)


class _Curves:
    """Likelihoods on the grid of log capacities (c) and laws of misses (t): steepness, floor and correlation."""

    def __init__(self, trials: Sequence[Observation], share: float) -> None:
        self.repeats = sorted({trial.repeat for trial in trials})
        self._trials, self._allowed = trials, 1 - share
        self.prior = _law_prior()
        tried = [math.log(trial.load) for trial in trials]
        self.log_loads = np.linspace(min(tried) - _BEYOND, max(tried) + _BEYOND, _COARSE)
        self._log = self._log_likelihoods()
        self._narrow()

    def likelihood(self, repeat: int) -> Array:
        """Of shape (c, t), up to a factor."""
        return self._log[repeat]

    def evidence(self, repeats: Sequence[int]) -> Array:
        """Return the weight of each law, of shape (t,), after these repeats, whose capacities are unknown."""
        weight = self.prior.copy()
        for repeat in repeats:
            weight *= self._log[repeat].sum(axis=0)
        return np.asarray(weight / weight.sum())

    def _narrow(self) -> None:
        """Refine the grid around the capacities that are not ruled out in every repeat."""
        possible = np.zeros(self.log_loads.size, dtype=bool)
        for repeat in self.repeats:
            posterior = self._log[repeat] @ self.evidence([other for other in self.repeats if other != repeat])
            possible |= posterior > _NEGLIGIBLE * posterior.max()
        indices = np.flatnonzero(possible)
        first, last = max(indices[0] - 1, 0), min(indices[-1] + 1, self.log_loads.size - 1)
        self.log_loads = np.linspace(self.log_loads[first], self.log_loads[last], _FINE)
        self._log = self._log_likelihoods()

    def _log_likelihoods(self) -> dict[int, Array]:
        likelihoods: dict[int, Array] = {}
        for trial in self._trials:
            logs = _CAUTION * self._log_likelihood(trial)
            likelihoods[trial.repeat] = likelihoods[trial.repeat] + logs if trial.repeat in likelihoods else logs
        return {repeat: np.exp(logs - logs.max()).reshape(logs.shape[0], -1) for repeat, logs in likelihoods.items()}

    def _log_likelihood(self, trial: Observation) -> Array:
        """Of shape (c, steepness * floor, correlation)."""
        table = _table(trial.planned, trial.planned - trial.within, self._allowed)
        away = (math.log(trial.load) - self.log_loads)[:, None, None] * _STEEPNESS[:, None]
        floors = _FLOORS * self._allowed
        misses = floors + (self._allowed - floors) * np.exp(np.clip(away, -50.0, 50.0))
        position = (np.log(misses) - _LOG_SHARES[0]) / (_LOG_SHARES[1] - _LOG_SHARES[0])
        position = np.clip(position, 0.0, _LOG_SHARES.size - 1.001).reshape(self.log_loads.size, -1)
        before = position.astype(np.intp)
        below, logs = table.take(before, axis=0), table.take(before + 1, axis=0)
        logs -= below
        logs *= (position - before)[:, :, None]
        logs += below
        return np.asarray(logs)


@functools.cache
def _law_prior() -> Array:
    prior = np.einsum("s,f,r->sfr", _STEEPNESS_PRIOR, _FLOORS_PRIOR, _CORRELATIONS_PRIOR).ravel()
    return np.asarray(prior / prior.sum())


@functools.lru_cache(4096)
def _table(planned: int, misses: int, allowed: float) -> Array:
    """Log likelihoods of these numbers of misses, of shape (log shares, correlations)."""
    far = far_beyond(planned, allowed)
    return _log_at_least(planned, far) if misses >= far else _log_exactly(planned, np.array([misses]))[:, :, 0]


@functools.lru_cache(256)
def _log_at_least(planned: int, misses: int) -> Array:
    fewer = special.logsumexp(_log_exactly(planned, np.arange(misses)), axis=2) if misses else -np.inf
    return np.asarray(np.log(np.maximum(-np.expm1(np.minimum(fewer, 0.0)), 1e-12)) + np.zeros((_LOG_SHARES.size, 1)))


def _log_exactly(planned: int, misses: NDArray[np.int_]) -> Array:
    """Log probabilities of the beta-binomial distribution: of shape (log shares, correlations, misses)."""
    share = np.exp(_LOG_SHARES)[:, None, None]
    total = (1 / _CORRELATIONS - 1)[:, None]
    alpha, beta = share * total, (1 - share) * total
    ways = special.gammaln(planned + 1) - special.gammaln(misses + 1) - special.gammaln(planned - misses + 1)
    return np.asarray(ways + special.betaln(misses + alpha, planned - misses + beta) - special.betaln(alpha, beta))


def _posterior(log_loads: Array, density: Array) -> Posterior:
    cumulated = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    return Posterior(log_loads, cumulated / cumulated[-1])
