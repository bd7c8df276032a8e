"""Part series, on simulated years: how often an alarm is false, and how soon a true fall is found.

The logarithm of a night's value has a part that the night shares with its re-measurements (an autoregressive machine,
weeks in which the machine is warm on some nights, two changes of a driver a year) and a part of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from host.settings import Settings
from lab.series.alarm import MEASURES, Finding, Measure, Night, judge

SPEEDUP, ACCEPTANCE = MEASURES
YEARS = 150
#: Of the years without and with a fall. The rule was tuned on years of other seeds: 1, 2, 11 and 12.
_QUIET_SEED, _FALL_SEED = 5000, 5001
_YEAR, _WARM = 365, range(150, 240)
#: The share of the variance that is the night's, and how much of it the next night keeps.
_SHARED, _KEPT = 0.25, 0.5
_DRIVER_CHANGES, _OF_FALL = 2, 40


@dataclass(frozen=True)
class World:
    """The noise of one value as a standard deviation, and the largest step of a driver and of a warm night."""

    measure: Measure
    noise: float
    driver: float
    warm: float


WORLDS = (World(SPEEDUP, 0.02, 0.007, 0.015), World(ACCEPTANCE, 0.003, 0.001, 0.0))
#: The falls that are planted: how large, and over how many nights they grow.
_FALLS = (
    (WORLDS[0], 0.05, 1),
    (WORLDS[1], 0.02, 1),
    (WORLDS[0], 0.03, 1),
    (WORLDS[0], 0.04, 40),
    (WORLDS[1], 0.02, 40),
)


@dataclass
class Year:
    """What a series of a year came to: nights, alarms, nights that were measured again, and when a fall was found."""

    nights: int = 0
    alarms: int = 0
    again: int = 0
    found_after: int | None = None  # nights, 1 for the same night


def levels(world: World, random: np.random.Generator) -> np.ndarray:
    """Return what each night of a year shares with its re-measurements."""
    machine, last = np.empty(_YEAR), 0.0
    deviation = world.noise * math.sqrt(_SHARED)
    for night in range(_YEAR):
        last = _KEPT * last + random.normal(0, deviation * math.sqrt(1 - _KEPT**2))
        machine[night] = last
    for change in random.integers(0, _YEAR, _DRIVER_CHANGES):
        machine[change:] += random.uniform(-world.driver, world.driver)
    warm = [night for night in _WARM if random.random() < 0.1]
    machine[warm] -= random.uniform(0, world.warm)
    return machine


def year(world: World, random: np.random.Generator, fall: np.ndarray | None = None) -> Year:
    """Live through a year; `fall` is added to its nights, and ends the year once it is found."""
    shared, came = levels(world, random), Year()
    begin = _YEAR if fall is None else int(np.flatnonzero(fall)[0])
    history: list[Night] = []
    for number in range(_YEAR):
        level = shared[number] + (0.0 if fall is None else fall[number])
        night, finding = _night(level, world, random, history)
        came.nights += 1
        came.again += len(night.values) - 1
        if finding.word == "fall" and number >= begin:
            came.found_after = number - begin + 1
            return came
        came.alarms += finding.word == "fall"
        history.append(night)
    return came


def _night(level: float, world: World, random: np.random.Generator, history: list[Night]) -> tuple[Night, Finding]:
    own = world.noise * math.sqrt(1 - _SHARED)
    error = own * math.sqrt(random.chisquare(4) / 4)  # as five repeats show it
    night = Night((level + random.normal(0, own),), error)
    while (finding := judge(history, night, world.measure)).word == "suspicious":
        night = Night((*night.values, level + random.normal(0, own)), error)
    return Night(night.values, error, finding.word == "outlier", finding.is_change), finding


def quiet(world: World, years: int, seed: int) -> Year:
    """Return the sum of years in which nothing becomes worse."""
    total = Year()
    for random in _seeded(years, seed):
        came = year(world, random)
        total = Year(total.nights + came.nights, total.alarms + came.alarms, total.again + came.again)
    return total


def falls(world: World, share: float, years: int, seed: int, over: int = 1) -> list[int | None]:
    """Return after how many nights each year's fall was found; it takes `over` nights until it is whole."""
    return [year(world, random, _fall(share, over, random)).found_after for random in _seeded(years, seed)]


def _fall(share: float, over: int, random: np.random.Generator) -> np.ndarray:
    begin = int(random.integers(_OF_FALL, _YEAR - over - _OF_FALL))
    return math.log1p(-share) * np.clip((np.arange(_YEAR) - begin + 1) / over, 0, 1)


def _seeded(years: int, seed: int) -> Iterator[np.random.Generator]:
    return (np.random.default_rng((seed, number)) for number in range(years))


def run(_settings: Settings, _repeats: int, years: int = YEARS) -> None:
    """Simulate and print two tables in Markdown."""
    print("| measure | noise | series-nights | false alarms | in 500 nights | re-measurements a night |")
    print("|" + "---|" * 6)
    for world in WORLDS:
        came = quiet(world, years, _QUIET_SEED)
        shares = f"{came.alarms / came.nights * 500:.2f} | {came.again / came.nights:.2f}"
        print(f"| {world.measure.label} | {world.noise:.1%} | {came.nights:,} | {came.alarms} | {shares} |", flush=True)
    print("\n| measure | fall | over nights | same night | 2 nights | 7 | 30 | 60 |\n|" + "---|" * 8)
    for world, share, over in _FALLS:
        found = [math.inf if nights is None else nights for nights in falls(world, share, years, _FALL_SEED, over)]
        within = (sum(nights <= most for nights in found) / len(found) for most in (1, 2, 7, 30, 60))
        cells = " | ".join(f"{part:.0%}" for part in within)
        print(f"| {world.measure.label} | {share:.0%} | {over} | {cells} |", flush=True)
