"""Where each engine publishes its metrics, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Metrics:
    """The metrics page of an engine and the names on it.

    `counters` maps our names (ServerCounters) to cumulative metrics, `gauges` to those of the moment: running and
    waiting requests, and the share of the KV cache in use (0 to 1). If an engine counts tokens by position in the
    draft, sums are computed from those. `formerly` has the names of older releases, read where the newer ones are not.
    """

    counters: Mapping[str, str]
    gauges: Mapping[str, str]
    path: str = "/metrics"
    position_label: str = "position"
    accepted_per_position: str | None = None
    drafted_per_position: str | None = None
    formerly: Mapping[str, str] = field(default_factory=dict)


VLLM = Metrics(
    counters={
        "prompt_tokens": "vllm:prompt_tokens_total",
        "generation_tokens": "vllm:generation_tokens_total",
        "num_drafts": "vllm:spec_decode_num_drafts_total",
        "num_draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
        "num_accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
        "prefix_cache_queries": "vllm:prefix_cache_queries_total",
        "prefix_cache_hits": "vllm:prefix_cache_hits_total",
        "num_preemptions": "vllm:num_preemptions_total",
    },
    gauges={
        "requests_running": "vllm:num_requests_running",
        "requests_waiting": "vllm:num_requests_waiting",
        "kv_cache_usage": "vllm:kv_cache_usage_perc",
    },
    accepted_per_position="vllm:spec_decode_num_accepted_tokens_per_pos_total",
    formerly={  # renamed in 0.9.2
        "vllm:prefix_cache_queries_total": "vllm:gpu_prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total": "vllm:gpu_prefix_cache_hits_total",
        "vllm:kv_cache_usage_perc": "vllm:gpu_cache_usage_perc",
    },
)
#: SGLang publishes acceptance as a gauge over its last batches, bonus token included: that has no difference over a
#: window, so accepted tokens are None here and come from each request (trap 9).
SGLANG = Metrics(
    counters={
        "prompt_tokens": "sglang:prompt_tokens_total",
        "generation_tokens": "sglang:generation_tokens_total",
        "num_drafts": "sglang:spec_verify_calls_total",
        "prefix_cache_queries": "sglang:prompt_tokens_total",
        "prefix_cache_hits": "sglang:cached_tokens_total",
        "num_preemptions": "sglang:num_retracted_requests_total",
    },
    gauges={
        "requests_running": "sglang:num_running_reqs",
        "requests_waiting": "sglang:num_queue_reqs",
        "kv_cache_usage": "sglang:token_usage",
    },
)
TENSORRT_LLM = Metrics(
    counters={
        "prompt_tokens": "trtllm_prompt_tokens_total",
        "generation_tokens": "trtllm_generation_tokens_total",
        "prefix_cache_queries": "trtllm_prompt_tokens_total",
        "prefix_cache_hits": "trtllm_prompt_cached_tokens_total",
    },
    gauges={
        "requests_running": "trtllm_num_requests_running",
        "requests_waiting": "trtllm_num_requests_waiting",
        "kv_cache_usage": "trtllm_kv_cache_utilization",
    },
    path="/prometheus/metrics",
    position_label="token_position",
    accepted_per_position="trtllm_spec_decode_accepted_tokens_total",
    drafted_per_position="trtllm_spec_decode_drafted_tokens_total",
)
