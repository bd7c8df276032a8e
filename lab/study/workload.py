"""A workload: the prompts, and how much is generated for each."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from lab.study.model_base import Frozen, Name

#: Published lengths of random prompts: input and output tokens. A workload that names one is stored with both.
RANDOM_LENGTHS = {
    "random_s": (1024, 256),
    "random_m": (10240, 256),
    "random_l": (2048, 2048),
    "random_x": (10240, 2048),
}


#: The category of prompts whose trace has no text: their tokens are random, so their acceptance means nothing.
NO_TEXT = "no_text"
#: The dataset whose prompts come with a schema, which the engine turns into a grammar.
WITH_GRAMMAR = "json_schema"


class Sessions(Frozen):
    """How conversations are replayed turn by turn: a turn is sent when the answer before it has ended, after a wait.

    With `answers = "own"` a turn continues from what the model itself answered, with `"recorded"` from what the dataset
    records; hash-only traces are always replayed as recorded. `max_turns` ends a session early. `think` is the wait
    before each turn but the first: as the dataset records it (none if it does not), none, fixed, or drawn from an
    exponential distribution of mean `think_s` with the study's seed, the same for every arm.
    """

    answers: Literal["own", "recorded"] = "own"
    max_turns: int | None = Field(default=None, ge=1, le=10_000)
    think: Literal["recorded", "none", "fixed", "exponential"] = "recorded"
    think_s: float | None = Field(default=None, gt=0, le=86_400)

    @model_validator(mode="after")
    def _think_time_is_given_where_it_is_needed(self) -> Self:
        if (self.think in ("fixed", "exponential")) != (self.think_s is not None):
            raise ValueError('think_s belongs to think = "fixed" or "exponential": set both, or neither')
        return self

    @property
    def name(self) -> str:
        """The name that distinguishes these sessions from others of the same dataset."""
        turns = [] if self.max_turns is None else [f"{self.max_turns}"]
        wait = [] if self.think == "recorded" else [self.think if self.think_s is None else f"{self.think_s:g}s"]
        wait = [f"{self.think}-{self.think_s:g}s"] if self.think == "exponential" else wait
        return "-".join(("sessions", self.answers, *turns, *wait))


class Workload(Frozen):
    """A dataset, one of its categories (or all of them), and how much is generated.

    `input_tokens`, `prefix_tokens` and `num_prefixes` are for synthetic datasets (random, prefix_repetition). With
    `own_output_lengths` each prompt has the output length that its dataset records, at most `output_tokens`.
    With `sessions` the dataset's conversations are replayed turn by turn; else only the first turn of each is sent.
    `score` says how answers are scored against what the dataset expects (`lab.quality.scores`); None: not at all.
    """

    dataset: Name = "reference"
    category: Name | None = None
    input_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    prefix_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    num_prefixes: int | None = Field(default=None, ge=1, le=1_000_000)
    output_tokens: int = Field(default=64, ge=2, le=131_072)
    own_output_lengths: bool = False
    ignore_eos: bool = True
    sessions: Sessions | None = None
    score: Literal["exact", "contains", "number", "json", "unit_tests"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _spell_out_random_lengths(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(name := data.get("dataset"), str) and name in RANDOM_LENGTHS:
            input_tokens, output_tokens = RANDOM_LENGTHS[name]
            given = {key: value for key, value in data.items() if value is not None}
            return {"input_tokens": input_tokens, "output_tokens": output_tokens} | given
        return data

    @model_validator(mode="after")
    def _random_lengths_are_what_the_name_says(self) -> Self:
        lengths = RANDOM_LENGTHS.get(self.dataset)
        if lengths is not None and (self.input_tokens, self.output_tokens) != lengths:
            raise ValueError(
                f"dataset {self.dataset} is {lengths[0]} input and {lengths[1]} output tokens: leave both out, "
                'or use dataset = "random" with lengths of your own'
            )
        return self

    @property
    def name(self) -> str:
        """`dataset/category/output_tokens`, with the input length where one is set; unique within a study."""
        made = [f"{n}" for n in (self.prefix_tokens, self.num_prefixes, self.input_tokens) if n is not None]
        outputs = f"own-{self.output_tokens}" if self.own_output_lengths else f"{self.output_tokens}"
        replayed = [] if self.sessions is None else [self.sessions.name]
        return "/".join((self.dataset, self.category or "all", *made, *replayed, outputs))
