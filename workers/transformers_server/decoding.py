"""One generation by transformers' `generate`, reported round by round: what was drafted, what the target accepted."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from counters import Counters
from loading import Models
from options import Options
from request_parsing import GenerationParams
from transformers import GenerationConfig

#: Called with the numbers of drafted and accepted tokens after each round that had a draft.
Observe = Callable[[int, int], None]
#: Receives the tokens of one verification round, or one token without speculation.
Emit = Callable[[list[int]], None]


class Rounds:
    """The rounds of one request. `accepted` excludes the token that the target adds in every round."""

    def __init__(self, num_speculative_tokens: int) -> None:
        self.num_speculative_tokens = num_speculative_tokens
        self.drafted = 0
        self.histogram = [0] * (num_speculative_tokens + 1)  # rounds by number of accepted tokens
        self.steps: list[tuple[int, int]] = []  # tokens drafted and accepted in each round

    def observe(self, drafted: int, accepted: int) -> None:
        self.drafted += drafted
        self.histogram[accepted] += 1
        self.steps.append((drafted, accepted))

    def summary(self) -> dict[str, Any]:
        """Return `metrics.speculative_decoding` as vLLM sends it under `--per-request-spec-decode-metrics
        detailed`.
        """
        steps = sum(self.histogram)
        accepted = sum(number * rounds for number, rounds in enumerate(self.histogram))
        return {
            "mean_acceptance_length": 1.0 + accepted / steps if steps else 1.0,
            "draft_acceptance_rate": accepted / self.drafted if self.drafted else 0.0,
            "acceptance_histogram": list(self.histogram),
            "num_spec_steps": steps,
            "num_accepted_draft_tokens": accepted,
            "num_draft_tokens": self.drafted,
            "num_spec_tokens": self.num_speculative_tokens,
            "per_step_accepted": [accepted for _, accepted in self.steps],
            "per_step_drafted": [drafted for drafted, _ in self.steps],
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


class _Stopped(Exception):  # noqa: N818 - the wish of a client, no error
    """The client of this generation has disconnected."""


class Decoder:
    """Decodes one request at a time; not thread-safe."""

    def __init__(self, options: Options, models: Models, counters: Counters) -> None:
        self._options, self._models, self._counters = options, models, counters
        self._rounds = Rounds(options.num_speculative_tokens)  # of the current request
        if options.method != "none":
            watch_rounds(models.target, self._observe)

    def decode(self, params: GenerationParams, rounds: Rounds, emit: Emit, stop: threading.Event) -> None:
        """Return when the answer is complete or `stop` is set, which is checked in every round."""
        self._rounds = rounds
        streamer = _Streamer(params, self._counters, emit, stop)
        prompt = torch.tensor([params.prompt_ids], device=self._models.target.device)
        if params.seed is None:
            torch.seed()
        else:
            torch.manual_seed(params.seed)
        try:
            self._models.target.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                generation_config=self._config(params),
                assistant_model=self._models.draft,
                streamer=streamer,
            )
        except _Stopped:
            return

    def _observe(self, drafted: int, accepted: int) -> None:
        self._rounds.observe(drafted, accepted)
        self._counters.round(drafted, accepted)

    def _config(self, params: GenerationParams) -> Any:
        """Set everything that has a default explicitly: top_k would otherwise be 50."""
        eos_ids = list(self._models.eos_ids)
        sampling = (
            {"temperature": params.temperature, "top_p": params.top_p, "top_k": 0} if params.temperature > 0 else {}
        )
        lookup = {}
        if self._options.prompt_lookup:
            lookup["prompt_lookup_num_tokens"] = self._options.num_speculative_tokens
            lookup["max_matching_ngram_size"] = self._options.max_matching_ngram_size
        new: Any = GenerationConfig
        return new(
            max_new_tokens=params.max_tokens,
            min_new_tokens=params.min_tokens or None,
            do_sample=bool(sampling),
            eos_token_id=None if params.ignore_eos else eos_ids or None,
            pad_token_id=eos_ids[0] if eos_ids else 0,  # one sequence is never padded; unset, there would be a warning
            **sampling,
            **lookup,
        )


class _Streamer:
    """The callbacks of `generate`: first with the prompt, then with the new tokens of each round."""

    def __init__(self, params: GenerationParams, counters: Counters, emit: Emit, stop: threading.Event) -> None:
        self._params, self._counters, self._emit, self._stop = params, counters, emit, stop
        self._prompt_passed = self._begun = False

    def put(self, value: torch.Tensor) -> None:
        if self._stop.is_set():
            raise _Stopped
        if not self._prompt_passed:
            self._prompt_passed = True
            return
        if not self._begun:  # only now has the prompt been processed
            self._begun = True
            self._counters.prompt(len(self._params.prompt_ids))
        tokens = value.flatten().tolist()
        self._counters.generated(len(tokens))
        self._emit(tokens)

    def end(self) -> None:
        """`generate` returns right after this call, which is what we wait for."""
