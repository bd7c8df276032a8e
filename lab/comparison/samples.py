"""The samples of a comparison: runs of two arms over the same workload and load, paired by block.

Runs of one engine start share the accidents of that start (its memory layout, its choice of kernels),
so they are one observation of it: blocks that share a launch are averaged into one. Kalibera & Jones 2013, Rigorous
benchmarking in reasonable time, doi:10.1145/2464157.2464160.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

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
    """

    run_id: str
    arm: str
    block: Hashable
    value: float | None  # the run's own number; None leaves the run out
    requests: Requests | None = None
    launch: Hashable | None = None
    until_decided: bool = False  # its study looked at the comparison after every block (`lab.comparison.looks`)
    log_variance: float = 0.0


@dataclass(frozen=True, eq=False)
class Pairs:
    """Both arms block by block: `baseline` and `candidate` of shape (blocks,). Compares by identity.

    A block is named by its repeats, one or, if they share a launch, several. The requests are of the prompts that every
    run has, of shape (prompts, blocks); None for fewer than two prompts. `log_variances` of both arms' numbers: repeats
    that agree more closely do so by luck.
    """

    blocks: tuple[tuple[Hashable, ...], ...]
    baseline: Array
    candidate: Array
    baseline_requests: Array | None = None
    candidate_requests: Array | None = None
    log_variances: tuple[float, float] = (0.0, 0.0)


def pair(baseline: Sequence[RunSample], candidate: Sequence[RunSample]) -> Pairs:
    """Pair the blocks in which both arms have a value, in the baseline's order; average those that share a launch.

    Raises ValueError for two runs of one arm in a block, and for numbers that are not finite (unknown is None).
    """
    ours, theirs = _by_block(baseline), _by_block(candidate)
    both = [block for block in ours if block in theirs]
    baselines, candidates = [ours[block] for block in both], [theirs[block] for block in both]
    units = connected(
        [
            {(run.arm, run.launch) for run in runs if run.launch is not None}
            for runs in zip(baselines, candidates, strict=True)
        ]
    )
    blocks = tuple(tuple(both[index] for index in unit) for unit in units)
    base, tried = (_averaged(_values(runs), units) for runs in (baselines, candidates))
    unknown = _log_variance(baselines), _log_variance(candidates)
    prompts = _common_prompts([*baselines, *candidates])
    if len(prompts) < 2:
        return Pairs(blocks, base, tried, log_variances=unknown)
    by_base, by_tried = (_averaged(_requests(runs, prompts), units) for runs in (baselines, candidates))
    return Pairs(blocks, base, tried, by_base, by_tried, unknown)


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


def _averaged(numbers: Array, units: Sequence[Sequence[int]]) -> Array:
    """Average the last axis over each unit."""
    if len(units) == numbers.shape[-1]:
        return numbers
    return np.stack([numbers[..., list(unit)].mean(axis=-1) for unit in units], axis=-1)


def _by_block(runs: Sequence[RunSample]) -> dict[Hashable, RunSample]:
    with_value = [run for run in runs if run.value is not None]
    by_block = {run.block: run for run in with_value}
    if len(by_block) != len(with_value):
        raise ValueError("two runs of one arm in the same block: choose one of them")
    return by_block


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
