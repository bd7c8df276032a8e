"""SGLang's settings of speculation, from its ServerArgs of August 2026, without their prefix `speculative_`.

Not run on hardware. A key that is missing here goes to the engine unchecked.
"""

from __future__ import annotations

from jobs.engines.speculation.option import Option, number, one_of, switch, text, whole
from lab.study.methods import methods_of

_TREES = methods_of("sglang", "model", "head")
_DRAFTS = methods_of("sglang", "model", "head", "block head")
_NGRAM = ("ngram",)
OPTIONS: tuple[Option, ...] = (
    Option("num_steps", "steps of the draft in a round", whole(1), "3", _TREES),
    Option("eagle_topk", "branches of the draft's tree; 1 is a chain", whole(1), "4", _TREES),
    Option("num_draft_tokens", "tokens verified in a round, the sure one included", whole(1), "16"),
    Option("adaptive", "the number of steps follows the acceptance while serving", switch, "true", _TREES),
    Option("adaptive_config", "the file with its bounds", text, '"f.json"', _TREES),
    Option(
        "accept_threshold_single",
        "a drafted token of at least this probability is accepted; below 1 the output is no longer the target's",
        number(0, 1),
        "0.9",
        _DRAFTS,
    ),
    Option(
        "accept_threshold_acc",
        "how much probability rejected branches lend the others; below 1 the output is no longer the target's",
        number(0, 1),
        "0.9",
        _DRAFTS,
    ),
    Option("use_rejection_sampling", "true rejection sampling", switch, "true", _DRAFTS),
    Option("attention_mode", "kernels of the verification", one_of("prefill", "decode"), '"decode"'),
    Option("draft_attention_backend", "attention kernels of the draft", text, '"fa3"', _DRAFTS),
    Option("draft_kv_cache_dtype", "type of the draft's KV cache", text, '"fp8_e4m3"', _DRAFTS),
    Option("draft_window_size", "context that the draft sees", whole(1), "4096", _DRAFTS),
    Option("draft_model_quantization", "of the draft's weights", text, '"fp8"', _DRAFTS),
    Option("draft_model_revision", "its commit", text, '"main"', _DRAFTS),
    Option("draft_load_format", "how its weights are read", text, '"auto"', _DRAFTS),
    Option("token_map", "file of frequent tokens (FR-Spec)", text, '"m.pt"', _TREES),
    Option("moe_runner_backend", "kernels of the draft's experts", text, '"triton"', _DRAFTS),
    Option("moe_a2a_backend", "their communication", text, '"deepep"', _DRAFTS),
    Option("skip_dp_mlp_sync", "no synchronisation of data-parallel drafts", switch, "true", _DRAFTS),
    Option("dflash_block_size", "tokens of a block", whole(1), "8", ("dflash",)),
    Option("dspark_block_size", "tokens of a block", whole(1), "8", ("dspark",)),
    Option(
        "dspark_align_verify_tokens_to_graph_tier",
        "verify as many tokens as a captured graph holds",
        switch,
        "true",
        ("dspark",),
    ),
    Option("dspark_sps_table_path", "a file", text, '"t"', ("dspark",)),
    Option("dspark_confidence_sts_path", "a file", text, '"t"', ("dspark",)),
    Option("ngram_min_bfs_breadth", "the fewest branches", whole(1), "1", _NGRAM),
    Option("ngram_max_bfs_breadth", "the most branches", whole(1), "10", _NGRAM),
    Option("ngram_match_type", "how branches are chosen", one_of("BFS", "PROB"), '"PROB"', _NGRAM),
    Option("ngram_max_trie_depth", "the longest match and draft", whole(1), "18", _NGRAM),
    Option("ngram_min_match_window_size", "older releases", whole(1), "1", _NGRAM),
    Option("ngram_max_match_window_size", "older releases", whole(1), "12", _NGRAM),
    Option("ngram_capacity", "nodes that its cache keeps", whole(1), "1000000", _NGRAM),
    Option("ngram_external_corpus_path", "a file", text, '"c"', _NGRAM),
    Option("ngram_external_sam_budget", "drafts from it", whole(0), "0", _NGRAM),
    Option("ngram_external_corpus_max_tokens", "its size", whole(1), "1000", _NGRAM),
)
