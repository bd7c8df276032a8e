"""The methods of speculation. A row has everything about one; adding a method is adding a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

#: What drafts the tokens: a language model of its own; a head on the target's hidden states, which drafts token after
#: token or a block at once; a head for each position; a search in the text so far, or in a tree of earlier texts too.
Drafter = Literal["model", "head", "block head", "head per position", "text so far", "suffix tree"]


@dataclass(frozen=True)
class Method:
    """One method of speculation.

    `engines` maps each kind of engine to its own name for it; other kinds do not have it. Which methods an
    installed engine really has, perhaps others than these, is checked when a study is submitted.
    """

    name: str
    label: str  # what a person calls it
    draft_model: Literal["needed", "optional", "refused"] = "optional"
    drafter: Drafter | None = None  # None: unknown
    engines: Mapping[str, str] = field(default_factory=dict)

    @property
    def looks_up(self) -> bool:
        """Return whether it looks the next tokens up in the text so far, by matches of bounded length."""
        return self.drafter == "text so far"

    @property
    def drafts_at_every_step(self) -> bool:
        """Return whether each step of the target has a draft; a search in texts may find nothing."""
        return self.drafter not in ("text so far", "suffix tree")


_ROWS = (
    Method(
        "draft_model",
        "draft model",
        "needed",
        "model",
        {
            "vllm": "draft_model",
            "sglang": "STANDALONE",
            "tensorrt_llm": "DraftTarget",
            "transformers": "assistant_model",
        },
    ),
    Method("eagle", "EAGLE", "needed", "head", {"vllm": "eagle", "sglang": "EAGLE"}),
    # Older releases of TensorRT-LLM have no type Eagle3, and in later ones `Eagle` is an alias of it.
    Method("eagle3", "EAGLE-3", "needed", "head", {"vllm": "eagle3", "sglang": "EAGLE3", "tensorrt_llm": "Eagle"}),
    Method("medusa", "Medusa", "needed", "head per position", {"vllm": "medusa"}),
    Method("mlp_speculator", "MLP speculator", "needed", "head per position", {"vllm": "mlp_speculator"}),
    Method("mtp", "MTP", "optional", "head", {"vllm": "mtp", "sglang": "NEXTN", "tensorrt_llm": "MTP"}),
    Method(
        "dflash", "DFlash", "needed", "block head", {"vllm": "dflash", "sglang": "DFLASH", "tensorrt_llm": "DFlash"}
    ),
    Method("dspark", "DSpark", "optional", "block head", {"vllm": "dspark", "sglang": "DSPARK"}),
    Method(
        "ngram",
        "n-gram",
        "refused",
        "text so far",
        {"vllm": "ngram", "sglang": "NGRAM", "tensorrt_llm": "NGram", "transformers": "prompt_lookup"},
    ),
    Method("ngram_gpu", "n-gram on the GPU", "refused", "text so far", {"vllm": "ngram_gpu"}),
    Method("suffix", "suffix", "refused", "suffix tree", {"vllm": "suffix", "tensorrt_llm": "SA"}),
)
METHODS: Mapping[str, Method] = {method.name: method for method in _ROWS}


def method_of(name: str) -> Method:
    """Return the method of this name. A name outside METHODS is its own label; nothing else is known about it."""
    return METHODS.get(name) or Method(name, name.replace("_", " "))


def methods_of(kind: str, *drafters: Drafter) -> tuple[str, ...]:
    """Return the names of an engine kind's methods: all of them, or only methods with one of these drafters."""
    return tuple(
        method.name for method in _ROWS if kind in method.engines and (not drafters or method.drafter in drafters)
    )


def spoken_name(method: str | None, num_speculative_tokens: int | None) -> str:
    """Return the name of an arm that says how it drafts: `EAGLE-3 k=3`, or `no draft`."""
    if method is None:
        return "no draft"
    label = method_of(method).label
    return label if num_speculative_tokens is None else f"{label} k={num_speculative_tokens}"
