"""vLLM's SpeculativeConfig, release 0.32: the keys that a user may set, and the combinations that vLLM refuses.

A test compares this list with the installed engine's own fields.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobs.engines.speculation.option import (
    Option,
    falling_shares,
    number,
    one_of,
    schedule,
    switch,
    table,
    text,
    whole,
)
from lab.study import Speculation
from lab.study.methods import methods_of

#: Keys that a study has fields of its own for.
FIELDS = ("method", "model", "num_speculative_tokens", "prompt_lookup_min", "prompt_lookup_max")
#: Keys that vLLM fills in itself.
INTERNAL = ("target_model_config", "target_parallel_config", "draft_model_config", "draft_parallel_config")
#: A key that is listed only to be refused.
MISNAMED = {"tensor_parallel_size": "draft_tensor_parallel_size"}

_DRAFTS = methods_of("vllm", "model", "head", "block head", "head per position")
_EAGLES = methods_of("vllm", "head", "block head")
OPTIONS: tuple[Option, ...] = (
    Option(
        "num_speculative_tokens_per_batch_size",
        "how many tokens are drafted at which batch size: [first, last, tokens]",
        schedule,
        "[[1, 4, 3], [5, 512, 0]]",
    ),
    Option(
        "enable_adaptive_verification",
        "how many drafted tokens are verified follows the draft's confidence",
        switch,
        "true",
        ("dspark",),
    ),
    Option(
        "rejection_sample_method",
        "how drafted tokens are accepted: one by one, as a block, or as invented rates say",
        one_of("standard", "block", "synthetic"),
        '"block"',
    ),
    Option(
        "draft_sample_method",
        "whether the draft takes its likeliest token or draws one",
        one_of("greedy", "probabilistic"),
        '"probabilistic"',
        _DRAFTS,
    ),
    Option(
        "synthetic_acceptance_length",
        "an invented acceptance length; such runs are never compared with real ones",
        number(1),
        "2.4",
    ),
    Option(
        "synthetic_acceptance_rates",
        "invented acceptance by position; such runs are never compared with real ones",
        falling_shares,
        "[0.8, 0.5, 0.2]",
    ),
    Option(
        "parallel_drafting",
        "all tokens in one pass of a draft that was trained so (P-EAGLE, PARD)",
        switch,
        "true",
        ("draft_model", "eagle", "eagle3", "dflash", "dspark"),
    ),
    Option(
        "suffix_decoding_max_cached_requests",
        "answers of other requests that the suffix tree keeps; 0: each prompt alone",
        whole(0),
        "0",
        ("suffix",),
    ),
    Option("suffix_decoding_max_tree_depth", "the longest match and draft together", whole(1), "24", ("suffix",)),
    Option(
        "suffix_decoding_max_spec_factor", "tokens drafted for each token of the match", number(0), "1.0", ("suffix",)
    ),
    Option(
        "suffix_decoding_min_token_prob",
        "the least frequency of a token that is drafted",
        number(0, 1),
        "0.1",
        ("suffix",),
    ),
    Option("draft_tensor_parallel_size", "GPUs of the draft: 1, or as many as the target has", whole(1), "1", _DRAFTS),
    Option("quantization", "how the draft's weights are quantised", text, '"fp8"', _DRAFTS),
    Option("moe_backend", "kernels of the draft's experts", text, '"triton"', _DRAFTS),
    Option("attention_backend", "attention kernels of the draft", text, '"FLASH_ATTN"', _DRAFTS),
    Option("kv_cache_dtype", "type of the draft's KV cache", text, '"fp8"', _DRAFTS),
    Option("max_model_len", "the longest context that the draft works on", whole(1), "4096", _DRAFTS),
    Option("enforce_eager", "no CUDA graphs for the draft", switch, "true", _DRAFTS),
    Option("revision", "the draft's branch, tag or commit", text, '"main"', _DRAFTS),
    Option("code_revision", "the branch, tag or commit of the draft's code", text, '"main"', _DRAFTS),
    Option("draft_load_config", "how it is loaded", table, "{}", _DRAFTS),
    Option(
        "index_share_for_mtp_iteration",
        "later steps of MTP use the first one's sparse indices",
        switch,
        "true",
        ("mtp",),
    ),
    Option(
        "disable_padded_drafter_batch",
        "drafts of different lengths in one batch, without padding",
        switch,
        "true",
        _EAGLES,
    ),
    Option("disable_eagle_block_drop", "keep the last block of a cached prefix", switch, "true", _EAGLES),
    Option("use_local_argmax_reduction", "the likeliest token is found on each GPU first", switch, "true", _DRAFTS),
    Option(
        "use_heterogeneous_vocab", "draft and target may have different vocabularies", switch, "true", ("draft_model",)
    ),
    Option("dspark_draft_topk", "candidates that DSpark's projection looks at", whole(1), "64", ("dspark",)),
)
_SYNTHETIC = ("synthetic_acceptance_length", "synthetic_acceptance_rates")


def conflicts(speculation: Speculation, version: str | None) -> Iterator[tuple[str, str]]:
    """Yield (key, problem) for combinations that vLLM would refuse at its start."""
    options, k = speculation.options, speculation.num_speculative_tokens
    for wrong, right in MISNAMED.items():
        if wrong in options:
            yield wrong, f"vLLM refuses this name: write {right}"
    for name in INTERNAL:
        if name in options:
            yield name, "vLLM fills this in itself: remove it"
    is_cpu_build = (version or "").endswith("+cpu")  # the local part that vLLM's wheels for CPUs carry
    yield from _synthetic_conflicts(speculation, is_cpu_build=is_cpu_build)
    if options.get("use_heterogeneous_vocab") is True and options.get("draft_sample_method") == "probabilistic":
        yield "draft_sample_method", "with use_heterogeneous_vocab the draft must be greedy"
    if (depth := options.get("suffix_decoding_max_tree_depth")) is not None and isinstance(depth, int) and k > depth:
        yield "suffix_decoding_max_tree_depth", f"{depth} holds no draft of {k} tokens: use {k + 1} or more"


def _synthetic_conflicts(speculation: Speculation, *, is_cpu_build: bool) -> Iterator[tuple[str, str]]:
    options, k = speculation.options, speculation.num_speculative_tokens
    given = [name for name in _SYNTHETIC if name in options]
    if options.get("rejection_sample_method") != "synthetic":
        for name in given:
            yield name, 'it needs rejection_sample_method = "synthetic" beside it'
        return
    if is_cpu_build:
        yield "rejection_sample_method", "vLLM's build for CPUs has no synthetic acceptance: it takes a GPU"
    if len(given) != 1:
        yield "rejection_sample_method", f"synthetic needs exactly one of {' and '.join(_SYNTHETIC)}"
    match options:
        case {"synthetic_acceptance_rates": [*rates]} if len(rates) != k:
            yield "synthetic_acceptance_rates", f"has {len(rates)} positions for {k} drafted tokens"
        case {"synthetic_acceptance_length": int() | float() as length} if length > k + 1:
            yield "synthetic_acceptance_length", f"{length:g} is more than {k} drafted tokens and the one after them"
