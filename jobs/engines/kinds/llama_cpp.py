"""llama.cpp's server, which is measured as a running server: the names on its /metrics (started with `--metrics`)."""

from __future__ import annotations

from jobs.engines.kind import Metrics

METRICS = Metrics(
    counters={
        "generation_tokens": "llamacpp:tokens_predicted_total",
        "num_drafts": "llamacpp:spec_decode_num_drafts_total",
        "num_draft_tokens": "llamacpp:spec_decode_num_draft_tokens_total",
        "num_accepted_tokens": "llamacpp:spec_decode_num_accepted_tokens_total",
        "prefix_cache_queries": "llamacpp:prompt_tokens_total",
        "prefix_cache_hits": "llamacpp:prompt_tokens_cached_total",
    },
    gauges={"requests_running": "llamacpp:requests_processing", "requests_waiting": "llamacpp:requests_deferred"},
    accepted_per_position="llamacpp:spec_decode_num_accepted_tokens_per_pos_total",
    # tokens of prompts that its cache served are counted apart, and not at all by older releases
    added={"prefix_cache_queries": "llamacpp:prompt_tokens_cached_total"},
)
