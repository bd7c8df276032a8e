"""How much longer a job will take: the plan's guesses, corrected by what this job has seen so far."""

from __future__ import annotations

from collections.abc import Sequence

from lab.plan import ASSUMED_START_S, PlannedRun, estimate_run_s


class Forecast:
    """Learns from each engine start and run of a job, and from nothing else."""

    def __init__(self) -> None:
        self._starts_s: list[float] = []
        self._guessed_s = self._took_s = 0.0

    def saw_start(self, took_s: float) -> None:
        self._starts_s.append(took_s)

    def saw_run(self, run: PlannedRun, took_s: float) -> None:
        """`took_s` from the beginning of its warm-up to the end of its window."""
        self._guessed_s += estimate_run_s(run)
        self._took_s += took_s

    def run_s(self, run: PlannedRun) -> float:
        """About how long this run takes, in seconds."""
        return estimate_run_s(run) * (self._took_s / self._guessed_s if self._guessed_s else 1.0)

    def remaining_s(self, runs: Sequence[PlannedRun], launches: int) -> float:
        """About how long these runs take, on so many engine starts, in seconds."""
        start_s = sum(self._starts_s) / len(self._starts_s) if self._starts_s else ASSUMED_START_S
        return launches * start_s + sum(map(self.run_s, runs))
