"""The two-sample test of completions: it holds its level, has the power that it states, and catches what is lossy."""

from __future__ import annotations

import numpy as np

from lab.quality.distribution import LEAST, LEVEL, REPLACED, difference

KINDS = [f"word {place}" for place in range(12)]
CHANCES = np.array([2.0**-place for place in range(12)])
CHANCES /= CHANCES.sum()


def sample(random: np.random.Generator, count: int, chances: np.ndarray = CHANCES) -> list[str]:
    return [KINDS[place] for place in random.choice(len(KINDS), count, p=chances)]


def test_equal_distributions_are_called_different_as_seldom_as_the_level_says() -> None:
    random = np.random.default_rng(1)
    found = [difference(sample(random, 100), sample(random, 100), seed) for seed in range(200)]
    share = np.mean([each is not None and each.differs for each in found])
    assert share <= LEVEL + 3 * np.sqrt(LEVEL * (1 - LEVEL) / 200)


def test_the_stated_power_is_the_chance_to_notice() -> None:
    random = np.random.default_rng(2)
    replaced = (1 - REPLACED) * CHANCES + REPLACED / len(KINDS)
    found = [difference(sample(random, 300), sample(random, 300, replaced), seed) for seed in range(100)]
    equal = [difference(sample(random, 300), sample(random, 300), seed) for seed in range(20)]
    stated = np.mean([each.power for each in equal if each is not None])
    noticed = np.mean([each is not None and each.differs for each in found])
    assert stated - 0.1 <= noticed <= stated + 0.25  # kinds that were never seen before are noticed more easily
    more = difference(sample(random, 3000), sample(random, 3000))
    assert more is not None
    assert more.power > stated


def test_a_draft_whose_likeliest_word_is_always_taken_is_noticed() -> None:
    random = np.random.default_rng(3)
    relaxed = CHANCES.copy()
    relaxed[0] += relaxed[3:].sum()
    relaxed[3:] = 0
    found = difference(sample(random, 200), sample(random, 200, relaxed))
    assert found is not None
    assert found.differs
    assert found.sentence.startswith("another distribution: p = 0.0")
    assert found.distance > 0.05


def test_few_completions_are_no_test_and_one_kind_is_no_difference() -> None:
    assert difference(["a"] * (LEAST - 1), ["a"] * 500) is None
    same = difference(["a"] * LEAST, ["a"] * LEAST)
    assert same is not None
    assert (same.p, same.distance, same.differs) == (1.0, 0.0, False)
