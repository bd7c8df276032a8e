"""Golden acceptance lengths: InferenceX's YAML files, read and written.

A file maps a model to its thinking modes, each of these to draft lengths (`num_speculative_tokens`) with a mean
acceptance length, the target's own token included: 1 + accepted / rounds, rounded to two decimals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from lab.errors import UserError

_MOST_CHARACTERS = 1_000_000
_EXAMPLE = "qwen3.8-27b: {thinking_on: {7: 3.67}}"


@dataclass(frozen=True)
class GoldenLength:
    """One golden figure; `mode` is thinking_on or thinking_off in the files that there are."""

    model: str
    mode: str
    num_speculative_tokens: int
    length: float


def read_golden(text: str, called: str) -> list[GoldenLength]:
    """Read a file. Raises UserError naming what is wrong."""
    try:
        read = yaml.safe_load(text[:_MOST_CHARACTERS])
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UserError(f"{called} is not valid YAML: {' '.join(str(error).split())}") from None
    found = [
        GoldenLength(str(model), str(mode), k, length)
        for model, modes in _mapping(read, called)
        for mode, lengths in _mapping(modes, f"{called}, {model}")
        for k, length in _lengths(lengths, f"{called}, {model}, {mode}")
    ]
    if not found:
        raise UserError(f"{called} has no acceptance length: it should look like {_EXAMPLE}")
    return found


def _mapping(value: Any, where: str) -> Iterator[tuple[Any, Any]]:
    if not isinstance(value, dict):
        raise UserError(f"{where} should be a mapping, as in {_EXAMPLE}")
    yield from value.items()


def _lengths(value: Any, where: str) -> Iterator[tuple[int, float]]:
    for k, length in _mapping(value, where):
        is_number = isinstance(length, int | float) and not isinstance(length, bool) and math.isfinite(length)
        if not isinstance(k, int) or isinstance(k, bool) or k < 1 or not is_number or not 1 <= length <= k + 1:
            raise UserError(
                f"{where}: {k!r}: {length!r} should be a number of drafted tokens k with an acceptance length from 1 "
                "to k + 1"
            )
        yield k, float(length)


def golden_text(lengths: Iterable[GoldenLength], about: Iterable[str] = ()) -> str:
    """Write lengths as such a file, with lines of comment above."""
    models: dict[str, dict[str, dict[int, float]]] = {}
    for golden in lengths:
        of_mode = models.setdefault(golden.model, {}).setdefault(golden.mode, {})
        of_mode[golden.num_speculative_tokens] = round(golden.length, 2)
    comment = "".join(f"# {line}\n" for line in about)
    return comment + yaml.safe_dump(models, sort_keys=True, allow_unicode=True)
