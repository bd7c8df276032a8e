"""One setting of an engine's speculation: its shape, its bounds, and the methods that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from pydantic import JsonValue

Wrong = str | None  # what a value should be instead; None if it is valid


@dataclass(frozen=True)
class Option:
    """A key of the engine's speculation settings.

    `wrong(value)` returns what the value should be. `methods` None: any method may have it. Each lab's policy decides
    about a value that names a file, a module or a revision of somebody's code.
    """

    name: str
    about: str
    wrong: Callable[[JsonValue], Wrong]
    sample: str  # a value, in TOML
    methods: tuple[str, ...] | None = None

    @property
    def example(self) -> str:
        """Return an example as a line of TOML."""
        return f"{self.name} = {self.sample}"


def switch(value: JsonValue) -> Wrong:
    return None if isinstance(value, bool) else "must be true or false"


def text(value: JsonValue) -> Wrong:
    return None if isinstance(value, str) and value else "must be a text"


def table(value: JsonValue) -> Wrong:
    return None if isinstance(value, dict) else "must be a table"


def whole(least: int) -> Callable[[JsonValue], Wrong]:
    def wrong(value: JsonValue) -> Wrong:
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return None
        return f"must be a whole number, {least} or more"

    return wrong


def number(least: float, most: float | None = None) -> Callable[[JsonValue], Wrong]:
    def wrong(value: JsonValue) -> Wrong:
        if _is_number(value) and least <= float(str(value)) <= (float("inf") if most is None else most):
            return None
        return f"must be a number, {least:g} or more" if most is None else f"must be between {least:g} and {most:g}"

    return wrong


@dataclass(frozen=True)
class OneOf:
    """A choice among a few words, which a form can offer."""

    words: tuple[str, ...]

    def __call__(self, value: JsonValue) -> Wrong:
        return None if value in self.words else f"must be one of {', '.join(self.words)}"


def one_of(*words: str) -> OneOf:
    return OneOf(words)


def whole_numbers(value: JsonValue) -> Wrong:
    if isinstance(value, list) and value and all(whole(0)(item) is None for item in value):
        return None
    return "must be a list of whole numbers, 0 or more"


def falling_shares(value: JsonValue) -> Wrong:
    """Check shares of rounds that reached each position: none can be greater than the one before."""
    if not isinstance(value, list) or not value or any(number(0, 1)(share) for share in value):
        return "must be a list of shares between 0 and 1"
    shares = [float(str(share)) for share in value]
    return "must not rise: position i counts the rounds that got so far" if _rises(shares) else None


def schedule(value: JsonValue) -> Wrong:
    """Check vLLM's [[first, last, tokens], ...]: inclusive ranges of batch sizes without overlap, from 1 on."""
    if not isinstance(value, list) or not value:
        return "must be a list of [first, last, tokens], like [[1, 4, 3], [5, 512, 0]]"
    ranges: list[tuple[int, int]] = []
    for entry in value:
        match entry:
            case [int(first), int(last), int(tokens)] if 0 < first <= last and tokens >= 0:
                ranges.append((first, last))
            case _:
                return f"has {entry!r}: each entry is [first, last, tokens] with 1 <= first <= last and tokens >= 0"
    ranges.sort()
    if ranges[0][0] != 1:
        return "must begin at a batch of 1, so that every batch size has a number of tokens"
    overlapping = any(later[0] <= earlier[1] for earlier, later in pairwise(ranges))
    return "has ranges that overlap" if overlapping else None


def lengths_by_batch(value: JsonValue) -> Wrong:
    """Check TensorRT-LLM's {batch size: tokens}, each for batches of up to that size."""
    if not isinstance(value, dict) or not value or not all(key.isdigit() and int(key) > 0 for key in value):
        return "must be a table of batch sizes, like { 4 = 3, 8 = 2 }"
    lengths = [value[key] for key in sorted(value, key=int)]
    if any(whole(0)(length) for length in lengths):
        return "must have whole numbers of tokens, 0 or more"
    return "must not draft more at a larger batch" if _rises([float(str(length)) for length in lengths]) else None


def _rises(numbers: list[float]) -> bool:
    return any(later > earlier for earlier, later in pairwise(numbers))


def _is_number(value: JsonValue) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
