"""By simulation: a study of identical arms, spread over two hosts of which one is half as fast, calls nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from lab.comparison.samples import Array, Requests, RunSample
from lab.comparison.verdict import verdicts
from tests.lab.comparison.one_cell import compare
from tests.lab.comparison.simulations.experiments import World, requests
from warehouse.queries.comparing.paired_runs import sample

_STUDIES, _PROMPTS, _BLOCKS = 200, 12, 6


def runs(arm: str, latencies: Array, hosts: list[str]) -> list[RunSample]:
    """One run for each block, of latencies of shape (prompts, blocks)."""
    names = tuple(map(str, range(_PROMPTS)))
    samples = []
    for repeat, host in enumerate(hosts):
        numbers = latencies[:, repeat]
        row: dict[str, Any] = {"run_id": f"{arm}-{repeat}", "arm": arm, "job_id": "job", "repeat": repeat}
        row |= {
            "launch_index": repeat,
            "taken_over_from": None,
            "host": host,
            "until_decided": False,
            "number": float(numbers.mean()),
        }
        samples.append(sample(row, requests=Requests(names, numbers)))
    return samples


def words(slowness: float) -> list[str]:
    """The verdict of each study, if latencies on the second host are so many times those on the first."""
    rng = np.random.default_rng(7)
    world = replace(World(), prompt_by_arm=0.0)
    base, tried = requests(rng, world, (_STUDIES, _PROMPTS, _BLOCKS))
    is_slow = rng.random((_STUDIES, _BLOCKS)) < 0.5  # whichever host was free took the block
    found: list[str] = []
    for study in range(_STUDIES):
        factors = np.where(is_slow[study], slowness, 1.0)
        hosts = ["w2" if slow else "w1" for slow in is_slow[study]]
        plain, same = runs("plain", base[study] * factors, hosts), runs("same", tried[study] * factors, hosts)
        found.append(verdicts([compare(plain, same, "lower")])[0].word)
    return found


def test_identical_arms_on_a_host_half_as_fast_are_called_no_oftener() -> None:
    alike = words(1.0)
    assert words(2.0) == alike
    called = sum(word in ("faster", "slower") for word in alike) / _STUDIES
    assert called <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / _STUDIES)


def test_arms_of_one_repeat_on_different_hosts_are_no_pair() -> None:
    latencies = np.ones((_PROMPTS, 3))
    plain, same = runs("plain", latencies, ["w1", "w1", "w2"]), runs("same", latencies, ["w1", "w2", "w2"])
    assert compare(plain, same, "lower").blocks == 2
