"""TensorRT-LLM's decoding configurations, from the reference of its LLM API (1.3 and 1.4 release candidates).

Not run on hardware. A key that is missing here goes to the engine unchecked.
"""

from __future__ import annotations

from jobs.engines.speculation.option import (
    Option,
    lengths_by_batch,
    number,
    switch,
    table,
    text,
    whole,
    whole_numbers,
)

_EAGLE, _MTP, _NGRAM, _SUFFIX = ("eagle3",), ("mtp",), ("ngram",), ("suffix",)
OPTIONS: tuple[Option, ...] = (
    Option("max_total_draft_tokens", "nodes of the draft's tree", whole(0), "16"),
    Option("max_concurrency", "no speculation above this many requests at once", whole(1), "32"),
    Option("draft_len_schedule", "tokens drafted up to each batch size", lengths_by_batch, "{ 4 = 3, 8 = 2, 32 = 1 }"),
    Option("acceptance_rate_window_size", "rounds looked back at", whole(0), "100"),
    Option(
        "acceptance_rate_threshold",
        "speculation ends for good below this share of accepted tokens",
        number(0, 1),
        "0.2",
    ),
    Option("use_rejection_sampling", "true rejection sampling", switch, "true"),
    Option("allow_advanced_sampling", "sampling beyond greedy", switch, "true"),
    Option("advanced_sampling_mode", "how much of it", text, '"FULL"'),
    Option("enable_penalty", "penalties while speculating", switch, "true"),
    Option("load_format", "how the draft is loaded", text, '"auto"'),
    Option("moe_backend", "kernels of the draft's experts", text, '"CUTLASS"'),
    Option("use_dynamic_tree", "the tree follows the draft's confidence", switch, "true"),
    Option("dynamic_tree_max_topK", "its widest branch", whole(1), "4"),
    Option("eagle_choices", "a fixed tree", lambda _value: None, "[[0], [0, 0]]", _EAGLE),
    Option("eagle3_one_model", "draft and target in one engine", switch, "true", _EAGLE),
    Option("eagle3_layers_to_capture", "layers", whole_numbers, "[1, 2, 3]", _EAGLE),
    Option("eagle3_model_arch", "family of the target", text, '"llama3"', _EAGLE),
    Option("num_eagle_layers", "layers of the draft", whole(1), "4", _EAGLE),
    Option("max_non_leaves_per_layer", "width of the tree", whole(1), "10", _EAGLE),
    Option("num_nextn_predict_layers", "heads of the target", whole(1), "1", _MTP),
    Option("use_mtp_vanilla", "all heads, one after the other", switch, "true", _MTP),
    Option(
        "use_relaxed_acceptance_for_thinking",
        "near misses are accepted while the model thinks; the output is no longer the target's",
        switch,
        "true",
        _MTP,
    ),
    Option("relaxed_topk", "accepted if among this many likeliest", whole(1), "10", _MTP),
    Option("relaxed_delta", "and so near to the likeliest", number(0), "0.6", _MTP),
    Option("begin_thinking_phase_token", "token id", whole(0), "128798", _MTP),
    Option("end_thinking_phase_token", "token id", whole(0), "128799", _MTP),
    Option("sa_config", "a suffix automaton beside the draft", table, "{}"),
    Option("max_matching_ngram_size", "the longest match", whole(-1), "4", (*_NGRAM, *_SUFFIX)),
    Option("is_keep_all", "all matches of a pattern are kept", switch, "true", _NGRAM),
    Option("is_use_oldest", "the oldest match is taken", switch, "true", _NGRAM),
    Option("is_public_pool", "one pool for all requests: it remembers answers", switch, "false", _NGRAM),
    Option("enable_global_pool", "the automaton keeps answers of other requests", switch, "true", _SUFFIX),
    Option("global_pool_size", "how many", whole(1), "1000", _SUFFIX),
)
