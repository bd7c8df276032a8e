"""Verification rounds: what was drafted and what the target accepted, as transformers reports it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

#: Called with the numbers of drafted and accepted tokens after each round that had a draft.
Observe = Callable[[int, int], None]


class Rounds:
    """The rounds of one request. `accepted` excludes the token that the target adds in every round."""

    def __init__(self, num_speculative_tokens: int) -> None:
        self.num_speculative_tokens = num_speculative_tokens
        self.drafted = 0
        self.histogram = [0] * (num_speculative_tokens + 1)  # rounds by number of accepted tokens

    def observe(self, drafted: int, accepted: int) -> None:
        self.drafted += drafted
        self.histogram[accepted] += 1

    def summary(self) -> dict[str, Any]:
        """Return `metrics.speculative_decoding` as vLLM sends it under `--per-request-spec-decode-metrics summary`."""
        steps = sum(self.histogram)
        accepted = sum(place * rounds for place, rounds in enumerate(self.histogram))
        return {
            "mean_acceptance_length": 1.0 + accepted / steps if steps else 1.0,
            "draft_acceptance_rate": accepted / self.drafted if self.drafted else 0.0,
            "acceptance_histogram": list(self.histogram),
            "num_spec_steps": steps,
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": self.drafted,
            "num_spec_tokens": self.num_speculative_tokens,
        }


def watch_rounds(model: Any, observe: Observe) -> None:
    """Call `observe` after each round with a draft in the model's assisted generation.

    Transformers has no public hook for this. If the private one is missing (in another version) this raises
    AttributeError at start.
    """
    build = model._get_candidate_generator  # noqa: SLF001 - see above

    def build_watched(*arguments: Any, **named: Any) -> Any:
        generator = build(*arguments, **named)
        _watch(generator, observe)
        return generator

    model._get_candidate_generator = build_watched  # noqa: SLF001 - see above


def _watch(generator: Any, observe: Observe) -> None:
    """`get_candidates` gives the length of a draft, `update_candidate_strategy` its matches: each is called once a
    round.

    Methods are replaced on the object, because transformers checks its class.
    """
    get, update = generator.get_candidates, generator.update_candidate_strategy
    drafted = 0

    def get_candidates(input_ids: torch.Tensor, **named: Any) -> Any:
        nonlocal drafted
        candidates = get(input_ids, **named)
        drafted = candidates[0].shape[1] - input_ids.shape[1]
        return candidates

    def update_candidate_strategy(input_ids: torch.Tensor, scores: torch.Tensor, num_matches: int) -> None:
        update(input_ids, scores, num_matches)
        if drafted:
            observe(drafted, int(num_matches))

    generator.get_candidates = get_candidates
    generator.update_candidate_strategy = update_candidate_strategy
