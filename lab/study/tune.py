"""Tunings: studies whose arms with speculation are drafts, each of which is tried with several k."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field, JsonValue, field_validator

from lab.study.arm import SCHEDULE, Arm, Speculation
from lab.study.load import Load
from lab.study.model_base import Frozen, Name

#: The number of drafted tokens at the end of an arm's name.
_K_IN_NAME = re.compile(r"[ ,]*\bk ?= ?\d+$")


class Tune(Frozen):
    """Find the best draft and number of drafted tokens for each load, and the engine's own schedule; then measure it.

    Each arm with speculation is a draft, whose own number of tokens does not matter. Arms named in `beside`, such as
    one with the engine's adaptive speculation, are not tuned but measured at the end beside what was found.
    """

    drafted_tokens: tuple[int, ...] = Field(default=(1, 2, 3, 4, 5), min_length=1, max_length=16)
    most_repeats: int = Field(default=6, ge=3, le=50)
    budget_minutes: float | None = Field(default=None, gt=0, le=525_600)
    schedule: bool = True  # False for engines that have no schedule by the number of requests at once
    beside: tuple[Name, ...] = ()

    @field_validator("drafted_tokens")
    @classmethod
    def _ascending(cls, tokens: tuple[int, ...]) -> tuple[int, ...]:
        if not all(1 <= k <= 64 for k in tokens):
            raise ValueError("drafted_tokens should be between 1 and 64 (0, no speculation, is always measured)")
        return tuple(sorted(set(tokens)))


@dataclass(frozen=True)
class Draft:
    """An arm with speculation whose number of drafted tokens is still to be chosen. Its name contains no number."""

    name: str
    arm: Arm
    speculation: Speculation

    def with_tokens(self, k: int) -> Arm:
        return self._arm(f"{self.name} k={k}", k, {})

    def scheduled(self, ranges: Sequence[tuple[int, int, int]]) -> Arm:
        """Return the arm with the engine's own schedule: (first, last, drafted tokens) of requests at once."""
        schedule: list[JsonValue] = [list(range_) for range_ in ranges]
        return self._arm(f"{self.name} scheduled", max(tokens for _, _, tokens in ranges), {SCHEDULE: schedule})

    def _arm(self, name: str, k: int, options: dict[str, JsonValue]) -> Arm:
        own = {name: value for name, value in self.speculation.options.items() if name != SCHEDULE}
        changes = {"num_speculative_tokens": k, "options": own | options}
        return self.arm.model_copy(update={"name": name, "speculation": self.speculation.model_copy(update=changes)})


def drafts(arms: Iterable[Arm], tune: Tune) -> tuple[Draft, ...]:
    return tuple(
        Draft(_K_IN_NAME.sub("", arm.name) or arm.name, arm, arm.speculation)
        for arm in arms
        if arm.speculation is not None and arm.name not in tune.beside
    )


def tuning_problems(
    tune: Tune, baseline: Arm, arms: Sequence[Arm], loads: Sequence[Load], workloads: int
) -> Iterator[str]:
    """Yield the reasons why a study with these parts cannot be tuned."""
    missing = sorted(set(tune.beside) - {arm.name for arm in arms})
    names = [draft.name for draft in drafts(arms, tune)]
    if baseline.speculation is not None:
        yield "tune: the baseline has to be an arm without speculation"
    if missing:
        yield f"tune.beside: no arm is called {' or '.join(map(repr, missing))}"
    if not names:
        yield "tune: at least one arm with speculation is needed"
    others = {arm.name for arm in arms if arm.speculation is None} - {baseline.name, *tune.beside}
    if others:
        yield f"tune: {min(others)!r} has no speculation to tune: remove it, or name it in tune.beside"
    if len(set(names)) < len(names):
        yield "tune: name each draft once, as its numbers of tokens are in tune.drafted_tokens"
    if workloads > 1:
        yield "tune: an engine's schedule goes by the load and not by the prompts, so tune one workload at a time"
    if len({load.max_concurrency for load in loads}) < len(loads) or not all(load.closed_loop for load in loads):
        yield "tune: a schedule goes by the requests at once: loads need different max_concurrency and no request rate"
