"""The samples of a comparison: runs of two arms over the same workload and load, paired by block.

Runs of one engine start share the accidents of that start (its memory layout, its choice of kernels),
so they are one observation of it: blocks that share a launch are averaged into one. Kalibera & Jones 2013, Rigorous
benchmarking in reasonable time, doi:10.1145/2464157.2464160.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Requests:
    """One number per prompt, of shape (prompts,), in the order of sending. Prompts without a number are left out."""

    prompts: tuple[str, ...]
    numbers: Array


@dataclass(frozen=True)
class RunSample:
    """One run and one of its metrics. `block`, the job and the repeat, pairs it with a run of the other arm.

    `requests` holds what the metric summarises: the run's TTFTs for a mean TTFT, and for throughput the E2E latencies,
    whose mean it follows in a closed loop. If None, the interval does not generalise to other prompts. `launch` is the
    engine start that the run was measured on; None if unknown, and then no other run is taken to share it.
    `log_variance` is the uncertainty of the value itself, as the variance of its logarithm: for results of a search.
    `rounds` are the metric's values in short windows, in which the arms of a block took turns in random order: of shape
    (rounds,), those of one index belong together, NaN where a round has none. None of a run in one long window.
    `in_sessions`: its prompts are turns, named `SESSION.TURN`.
    """

    run_id: str
    arm: str
    block: Hashable
    value: float | None  # the run's own number; None leaves the run out
    requests: Requests | None = None
    launch: Hashable | None = None
    until_decided: bool = False  # its study looked at the comparison after every block (`lab.comparison.looks`)
    log_variance: float = 0.0
    rounds: Array | None = field(default=None, compare=False)
    in_sessions: bool = False


@dataclass(frozen=True, eq=False)
class Pairs:
    """Both arms block by block: `baseline` and `candidate` of shape (blocks,). Compares by identity.

    A block is named by its repeats, one or, if they share a launch, several. The requests are of the prompts that every
    run has, of shape (prompts, blocks); None for fewer than two prompts, or sessions. `sessions` numbers the session of
    each prompt; None if the prompts are no turns. `log_variances` of both arms' numbers: repeats that agree more
    closely do so by luck. `rounds` are both arms' values of shape (repeats, rounds), NaN where either
    lacks the round; None unless every repeat has rounds, two at least. `start_weights`: how much of one start's
    variance the mean of either arm has, one half on two starts.
    """

    blocks: tuple[tuple[Hashable, ...], ...]
    baseline: Array
    candidate: Array
    baseline_requests: Array | None = None
    candidate_requests: Array | None = None
    sessions: NDArray[np.intp] | None = None
    log_variances: tuple[float, float] = (0.0, 0.0)
    rounds: tuple[Array, Array] | None = None
    start_weights: tuple[float, float] = (1.0, 1.0)

    @property
    def prompts(self) -> int | None:
        """Return the number of independent prompts: of sessions, if the prompts are their turns."""
        if self.baseline_requests is None:
            return None
        return len(self.baseline_requests) if self.sessions is None else int(self.sessions.max()) + 1

    @property
    def units(self) -> list[list[int]]:
        """Return the rows of `rounds` of each block."""
        ends = np.cumsum([len(block) for block in self.blocks]).tolist()
        return [list(range(end - len(block), end)) for end, block in zip(ends, self.blocks, strict=True)]


def pair(baseline: Sequence[RunSample], candidate: Sequence[RunSample]) -> Pairs:
    """Pair the blocks in which both arms have a value, in the baseline's order; average those that share a launch.

    Raises ValueError for two runs of one arm in a block, and for numbers that are not finite (unknown is None).
    """
    ours, theirs = by_block(baseline), by_block(candidate)
    both = [block for block in ours if block in theirs]
    baselines, candidates = [ours[block] for block in both], [theirs[block] for block in both]
    units = connected(
        [
            {(run.arm, run.launch) for run in runs if run.launch is not None}
            for runs in zip(baselines, candidates, strict=True)
        ]
    )
    blocks = tuple(tuple(both[index] for index in unit) for unit in units)
    base, tried = (averaged(_values(runs), units) for runs in (baselines, candidates))
    unknown = _log_variance(baselines), _log_variance(candidates)
    pairs = Pairs(blocks, base, tried, log_variances=unknown)
    order = [index for unit in units for index in unit]
    if rounds := _rounds(*([runs[index] for index in order] for runs in (baselines, candidates))):
        return replace(pairs, rounds=rounds, start_weights=(_start_weight(baselines), _start_weight(candidates)))
    prompts = _common_prompts([*baselines, *candidates])
    sessions = None
    if any(run.in_sessions for run in (*baselines, *candidates)):
        sessions = np.unique([prompt.rpartition(".")[0] for prompt in prompts], return_inverse=True)[1]
    if len(prompts if sessions is None else set(sessions.tolist())) < 2:
        return pairs
    by_base, by_tried = (averaged(_requests(runs, prompts), units) for runs in (baselines, candidates))
    return replace(pairs, baseline_requests=by_base, candidate_requests=by_tried, sessions=sessions)


def connected(launches: Sequence[set[Hashable]]) -> list[list[int]]:
    """Return the indices grouped by shared launches, directly or through others. An index without a launch is alone."""
    units: list[tuple[set[Hashable], list[int]]] = []
    for index, starts in enumerate(launches):
        shared = [unit for unit in units if unit[0] & starts]
        units = [unit for unit in units if not unit[0] & starts]
        units.append(
            (starts.union(*(of for of, _ in shared)), [other for _, indices in shared for other in indices] + [index])
        )
    return sorted(indices for _, indices in units)


def averaged(numbers: Array, units: Sequence[Sequence[int]]) -> Array:
    """Average the last axis over each unit."""
    if len(units) == numbers.shape[-1]:
        return numbers
    return np.stack([numbers[..., list(unit)].mean(axis=-1) for unit in units], axis=-1)


def by_block(runs: Sequence[RunSample]) -> dict[Hashable, RunSample]:
    """Return the runs that have a value. Raises ValueError if a block has two."""
    with_value = [run for run in runs if run.value is not None]
    by_block = {run.block: run for run in with_value}
    if len(by_block) != len(with_value):
        raise ValueError("two runs of one arm in the same block: choose one of them")
    return by_block


def _rounds(baselines: Sequence[RunSample], candidates: Sequence[RunSample]) -> tuple[Array, Array] | None:
    """Return both arms' values of the rounds that both have; None if a repeat has fewer than two of them."""
    of_runs = [run.rounds for run in (*baselines, *candidates) if run.rounds is not None]
    if not of_runs or len(of_runs) < 2 * len(baselines):
        return None
    values = np.full((2, len(baselines), max(rounds.size for rounds in of_runs)), np.nan)
    for row, rounds in zip(values.reshape(len(of_runs), -1), of_runs, strict=True):
        row[: rounds.size] = rounds
    values[:, ~np.isfinite(values).all(axis=0)] = np.nan
    if (np.isfinite(values[0]).sum(axis=1) < 2).any():
        return None
    return values[0], values[1]


def _start_weight(runs: Sequence[RunSample]) -> float:
    """Return how much of one start's variance the mean of these runs has. A run of an unknown start has its own."""
    counts = Counter(("run", run.run_id, run.block) if run.launch is None else run.launch for run in runs)
    return sum(count**2 for count in counts.values()) / len(runs) ** 2


def _common_prompts(runs: Sequence[RunSample]) -> tuple[str, ...]:
    prompts_of_runs = [run.requests.prompts for run in runs if run.requests is not None]
    if not runs or len(prompts_of_runs) < len(runs):
        return ()
    if all(prompts == prompts_of_runs[0] for prompts in prompts_of_runs):  # the usual case, and quick to detect
        return prompts_of_runs[0]
    common = set(prompts_of_runs[0]).intersection(*prompts_of_runs)
    return tuple(prompt for prompt in prompts_of_runs[0] if prompt in common)


def _values(runs: Sequence[RunSample]) -> Array:
    return _finite(np.array([run.value for run in runs], dtype=np.float64))


def _log_variance(runs: Sequence[RunSample]) -> float:
    return sum(run.log_variance for run in runs) / len(runs) if runs else 0.0


def _requests(runs: Sequence[RunSample], prompts: tuple[str, ...]) -> Array:
    return _finite(np.array([_of(run.requests, prompts) for run in runs if run.requests is not None]).T)


def _of(requests: Requests, prompts: tuple[str, ...]) -> Array:
    if requests.prompts == prompts:
        return requests.numbers
    position = {prompt: index for index, prompt in enumerate(requests.prompts)}
    return requests.numbers[[position[prompt] for prompt in prompts]]


def _finite(numbers: Array) -> Array:
    if not np.isfinite(numbers).all():
        raise ValueError("a run's numbers must be finite: pass None for an unknown one, or leave its prompt out")
    return numbers
