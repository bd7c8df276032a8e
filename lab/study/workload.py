"""A workload: the prompts, and how much is generated for each."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from lab.study.model_base import Frozen, Input, Name, RecordField

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

    The model's own answers go back without their reasoning, as chat clients send them, or with it in the message's
    `reasoning_field`, for chat templates that read it there.
    """

    answers: Annotated[
        Literal["own", "recorded"],
        Input(choices={"own": "the model's own answers", "recorded": "the recorded answers"}),
    ] = Field(
        default="own",
        title="Replay whole sessions, turn by turn, with",
        description="Concurrency and prompts of the loads then count sessions",
    )
    max_turns: Annotated[int | None, Input("all")] = Field(default=None, ge=1, le=10_000, title="Turns at most")
    think: Annotated[
        Literal["recorded", "none", "fixed", "exponential"],
        Input(
            choices={
                "recorded": "as the dataset records it",
                "none": "none",
                "fixed": "the same each time",
                "exponential": "drawn, exponential",
            }
        ),
    ] = Field(default="recorded", title="Pause before each later turn")
    think_s: Annotated[float | None, Input(step=0.5)] = Field(
        default=None, gt=0, le=86_400, title="Seconds of the pause (the mean, if drawn)"
    )

    reasoning_field: Annotated[
        Literal["reasoning", "reasoning_content"] | None,
        Input("left out", choices={"reasoning": "reasoning", "reasoning_content": "reasoning_content"}),
        RecordField("field in which the reasoning of own answers was sent back; null if it was left out", since=14),
    ] = Field(
        default=None,
        title="Field for earlier reasoning",
        description="Of the message with the model's own answer; clients of chat models leave the reasoning out",
    )

    @model_validator(mode="after")
    def _think_time_is_given_where_it_is_needed(self) -> Self:
        if (self.think in ("fixed", "exponential")) != (self.think_s is not None):
            raise ValueError('think_s belongs to think = "fixed" or "exponential": set both, or neither')
        return self

    @property
    def name(self) -> str:
        """Return the name that distinguishes these sessions from others of the same dataset."""
        turns = [] if self.max_turns is None else [f"{self.max_turns}"]
        wait = [] if self.think == "recorded" else [self.think if self.think_s is None else f"{self.think_s:g}s"]
        wait = [f"{self.think}-{self.think_s:g}s"] if self.think == "exponential" else wait
        reasoning = [] if self.reasoning_field is None else [self.reasoning_field]
        return "-".join(("sessions", self.answers, *turns, *wait, *reasoning))


class Workload(Frozen):
    """A dataset, one of its categories (or all of them), and how much is generated.

    With `sessions` the dataset's conversations are replayed turn by turn; else only the first turn of each is sent.
    `score` is one of `lab.quality.scores`.
    """

    dataset: Name = Field(
        default="reference",
        title="Dataset",
        description="A name, or the path of a JSONL file on the worker; the datasets on this host are listed below",
    )
    category: Annotated[Name | None, Input("all")] = Field(
        default=None, title="Category", description="One category of the dataset; empty: all of them"
    )
    input_tokens: Annotated[int | None, Input("dataset's own")] = Field(
        default=None,
        ge=1,
        le=1_000_000,
        title="Input tokens",
        description="Prompt length of synthetic datasets (random, prefix_repetition)",
    )
    prefix_tokens: Annotated[int | None, Input("none")] = Field(
        default=None, ge=1, le=1_000_000, title="Shared prefix (tokens)"
    )
    num_prefixes: Annotated[int | None, Input("none")] = Field(
        default=None, ge=1, le=1_000_000, title="Number of prefixes"
    )
    output_tokens: int = Field(
        default=64,
        ge=2,
        le=131_072,
        title="Output tokens",
        description="Requested output length; an upper limit if each prompt has an output length of its own",
    )
    own_output_lengths: bool = Field(
        default=False,
        title="Use each prompt's own output length",
        description="As recorded in the dataset, up to the output tokens of this row",
    )
    ignore_eos: bool = Field(
        default=True,
        title="Ignore the end-of-text token",
        description="Generate to the full length (ignore_eos), so that every arm generates equally much",
    )
    sessions: Sessions | None = Field(default=None, title="Sessions")
    score: Annotated[Literal["exact", "contains", "number", "json", "unit_tests"] | None, Input("not at all")] = Field(
        default=None,
        title="Score the answers",
        description="Against `expected` of the dataset's rows; Compare then says whether a draft makes answers worse",
    )

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
