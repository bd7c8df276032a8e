"""Simulated machines whose truth is known: drafts of every quality, costs that depend on the load, noise of two kinds.

A step of the target over n tokens takes as long as reading the weights, and from some n on as long as the arithmetic.
A round with k drafted tokens verifies k + 1 tokens for each request, after k steps of the draft. On top of that each
setting is a little faster or slower than any formula says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from lab.tuning.race import Round
from lab.tuning.setting import NONE, Setting, Space, TunedRun

SPACE = Space(("draft model", "head", "look-up"), (1, 2, 3, 4, 5), (1, 2, 4, 8, 16))
#: For each draft the bounds of its step over one of the target, and of how often its first token is accepted.
_DRAFTS = {
    "draft model": ((0.08, 0.25), (0.5, 0.92)),
    "head": ((0.02, 0.1), (0.4, 0.9)),
    "look-up": ((0, 0.01), (0.1, 0.7)),
}
#: How far a setting lies off the formula, and how far a block lies off the others: standard deviations.
_OFF_SD, _BLOCK_SD = 0.01, 0.02
#: Rounds that a run's acceptance is counted from.
_ROUNDS = 1000


class World:
    """One machine with three drafts. `speeds` holds the true speed of every setting at every load."""

    def __init__(self, seed: int, **changes: Any) -> None:
        """`changes` replace what is drawn: `run_sd`, `start_sd`, and `accepted`, a share by position for each draft."""
        self._rng = np.random.default_rng(seed)
        self.accepted = {draft: self._acceptance(first) for draft, (_, first) in _DRAFTS.items()}
        self.accepted |= changes.get("accepted", {})
        self.speeds = self._true_speeds()
        self.run_sd = changes.get("run_sd", self._between_logs(0.005, 0.03))
        self.start_sd = changes.get("start_sd", self._between_logs(0.003, 0.015))
        self._blocks: dict[int, float] = {}

    def measure(self, round_: Round) -> list[TunedRun]:
        """Measure a round: what one engine start happens to be like is the same for all its loads."""
        drift = self._blocks.setdefault(round_.block, self._rng.normal(0, _BLOCK_SD))
        runs = []
        for setting, loads in round_.loads.items():
            start = self._rng.normal(0, self.start_sd)
            for load in loads:
                noise = drift + start + self._rng.normal(0, self.run_sd)
                speed = self.speeds[setting, load] * math.exp(noise)
                runs.append(TunedRun(setting, load, round_.block, speed, self._counted(setting)))
        return runs

    def grid(self, repeats: int) -> list[TunedRun]:
        """Measure every setting at every load, as often as asked."""
        every = dict.fromkeys(SPACE.settings, SPACE.loads)
        return [run for block in range(repeats) for run in self.measure(Round(block, every))]

    def loss(self, chosen: Setting, load: int) -> float:
        """Return how much faster the best setting truly is than the chosen one, as a share."""
        return max(self.speeds[setting, load] for setting in SPACE.settings) / self.speeds[chosen, load] - 1

    def _acceptance(self, bounds: tuple[float, float]) -> tuple[float, ...]:
        first, fade = self._rng.uniform(*bounds), self._rng.uniform(0.8, 1.0)
        return tuple(np.cumprod([first * fade**place for place in range(SPACE.ks[-1])]).tolist())

    def _true_speeds(self) -> dict[tuple[Setting, int], float]:
        uniform = self._rng.uniform
        overhead, sharp, balance = uniform(0, 0.3), uniform(2, 8), self._between_logs(6, 150)
        costs = {draft: (uniform(*cost), uniform(0, 0.08)) for draft, (cost, _) in _DRAFTS.items()}

        def step(tokens: int) -> float:
            return float(overhead + (1 + (tokens / balance) ** sharp) ** (1 / sharp))

        def true_speed(setting: Setting, load: int) -> float:
            if setting == NONE:
                return load / step(load)
            per_token, per_round = costs[setting.draft]
            round_s = step(load * (setting.k + 1)) + setting.k * per_token * (1 + load / 64) + per_round
            length = 1 + sum(self.accepted[setting.draft][: setting.k])
            return load * length / round_s * math.exp(self._rng.normal(0, _OFF_SD))

        return {(setting, load): true_speed(setting, load) for load in SPACE.loads for setting in SPACE.settings}

    def _between_logs(self, low: float, high: float) -> float:
        return math.exp(self._rng.uniform(math.log(low), math.log(high)))

    def _counted(self, setting: Setting) -> tuple[float, ...]:
        """The acceptance by position as a run counts it; each position only where the one before was accepted."""
        left, shares = _ROUNDS, []
        before: Sequence[float] = (1.0, *self.accepted.get(setting.draft, ()))
        for place in range(setting.k):
            left = int(self._rng.binomial(left, before[place + 1] / before[place])) if before[place] else 0
            shares.append(left / _ROUNDS)
        return tuple(shares)
