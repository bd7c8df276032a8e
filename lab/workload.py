"""The prompts of a study and how much is to be generated."""

from __future__ import annotations

from pydantic import Field

from lab.frozen import Frozen, Name


class Workload(Frozen):
    """The prompts: a dataset, one of its categories (or all of them), and how much is to be generated.

    `input_tokens`, `prefix_tokens` and `num_prefixes` are for datasets that are made and not read (random,
    prefix_repetition). With `own_output_lengths` each prompt asks for the output length that its dataset records, and
    for `output_tokens` at most.
    """

    dataset: Name = "reference"
    category: Name | None = None
    input_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    prefix_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    num_prefixes: int | None = Field(default=None, ge=1, le=1_000_000)
    output_tokens: int = Field(default=64, ge=2, le=131_072)
    own_output_lengths: bool = False
    ignore_eos: bool = True

    @property
    def name(self) -> str:
        """`dataset/category/output_tokens`, with the input length where one is set; unique within a study."""
        made = [f"{n}" for n in (self.prefix_tokens, self.num_prefixes, self.input_tokens) if n is not None]
        outputs = f"own-{self.output_tokens}" if self.own_output_lengths else f"{self.output_tokens}"
        return "/".join((self.dataset, self.category or "all", *made, outputs))
