"""A server that is already running, of any kind that answers OpenAI's protocol. It needs no table in engines.toml."""

from __future__ import annotations

from jobs.engines import sglang, vllm
from jobs.engines.kind import Kind

ENDPOINT = "endpoint"
KIND = Kind(
    name=ENDPOINT,
    arguments=None,
    metrics=(vllm.METRICS, sglang.METRICS),
    flags={},
    takes_config=False,
    reset_path="/reset_prefix_cache",
)
