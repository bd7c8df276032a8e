"""Valid objects with small overrides."""

from __future__ import annotations

from jobs.datasets.prompt import Prompt
from lab.study import Sampling
from workers.load.client import RequestParams


def params(output_tokens: int = 9, timeout_s: float = 600.0, *, ignore_eos: bool = True) -> RequestParams:
    return RequestParams(Sampling(), output_tokens, ignore_eos, timeout_s)


def prompts(count: int) -> tuple[Prompt, ...]:
    return tuple(Prompt(f"p{place}", "prose", f"Tell me tale number {place}") for place in range(count))
