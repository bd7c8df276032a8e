"""Named access patterns, for a study's `pattern = "..."`.

The five patterns and the sweep have the figures of the published experiments that `presets/` repeats. A study is
stored with its loads expanded, so that changing a figure here does not change earlier studies.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

#: The fields of a Load by pattern. Without a rate, requests are sent as fast as the concurrency allows.
PATTERNS: dict[str, dict[str, Any]] = {
    "throughput_low": {"max_concurrency": 1, "num_prompts": 16},
    "throughput_high": {"max_concurrency": 32, "num_prompts": 256},
    "burstiness_high": {"request_rate_rps": 64.0, "burstiness": 0.2, "max_concurrency": 32, "num_prompts": 256},
    "burstiness_mid": {"request_rate_rps": 8.0, "burstiness": 1.0, "max_concurrency": 32, "num_prompts": 256},
    "burstiness_low": {"request_rate_rps": 2.0, "burstiness": 4.0, "max_concurrency": 32, "num_prompts": 256},
}
#: The pattern that expands to several loads: one per concurrency, each with this many prompts per stream.
SWEEP = "concurrency_sweep"
SWEEP_CONCURRENCIES = (1, 5, 25, 50, 100, 200)
SWEEP_PROMPTS_PER_STREAM = 8
#: Keys of a load in addition to the fields of Load.
PATTERN_KEYS = ("pattern", "concurrencies", "prompts_per_stream")
PATTERN_NAMES = (*PATTERNS, SWEEP)

Problem = tuple[str, str]


def expand(load: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Expand a load with a `pattern` into loads, and return problems as (key, sentence).

    Further keys override the pattern's. A load without a pattern is returned as it is.
    """
    own = {key: value for key, value in load.items() if key not in PATTERN_KEYS}
    pattern = load.get("pattern")
    if pattern == SWEEP:
        return _sweep(load, own)
    problems = [(key, f"belongs to pattern {SWEEP}: remove it") for key in PATTERN_KEYS[1:] if key in load]
    if "pattern" not in load:
        return [own], problems
    if not isinstance(pattern, str) or pattern not in PATTERNS:
        return [], [*problems, ("pattern", _unknown(pattern))]
    return [{"label": pattern, **PATTERNS[pattern], **own}], problems


def _sweep(load: Mapping[str, Any], own: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Problem]]:
    concurrencies = load.get("concurrencies", SWEEP_CONCURRENCIES)
    per_stream = load.get("prompts_per_stream", SWEEP_PROMPTS_PER_STREAM)
    problems = []
    if "max_concurrency" in own:
        problems.append(("max_concurrency", "a sweep has several: write concurrencies = [1, 8, 32]"))
    if not isinstance(concurrencies, list | tuple) or not concurrencies or not all(map(_is_count, concurrencies)):
        problems.append(("concurrencies", f"should be a list of whole numbers from 1 on, got {concurrencies!r}"))
    elif len(set(concurrencies)) < len(concurrencies):
        problems.append(("concurrencies", f"should differ from each other, got {list(concurrencies)!r}"))
    if not _is_count(per_stream):
        problems.append(("prompts_per_stream", f"should be a whole number from 1 on, got {per_stream!r}"))
    if problems:
        return [], problems
    label = own.pop("label") if isinstance(own.get("label"), str) else SWEEP
    loads = [{"label": f"{label} c{n}", "max_concurrency": n, "num_prompts": n * per_stream} for n in concurrencies]
    return [load | own for load in loads], []


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _unknown(pattern: object) -> str:
    close = difflib.get_close_matches(str(pattern), PATTERN_NAMES, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{str(pattern)[:80]!r} is not a known pattern: {hint}The patterns are {', '.join(PATTERN_NAMES)}"
