"""The kinds of engines, by name; among them a server that runs already and answers OpenAI's protocol."""

from __future__ import annotations

from collections.abc import Mapping

from jobs.engines.kind import Kind
from jobs.engines.kinds import llama_cpp, sglang, tensorrt_llm, transformers, vllm

#: Needs no table in engines.toml.
ENDPOINT = "endpoint"
_ENDPOINT = Kind(
    name=ENDPOINT,
    started_as="not started",
    counted_on="`/metrics` of vLLM, SGLang and llama.cpp, TensorRT-LLM's `/prometheus/metrics`, and in answers",
    arguments=None,
    metrics=(vllm.METRICS, sglang.METRICS, llama_cpp.METRICS, tensorrt_llm.METRICS),
    flags={},
    takes_config=False,
    reset_path="/reset_prefix_cache",
    reset_tiers_path=vllm.RESET_TIERS,
)
KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (vllm.KIND, sglang.KIND, tensorrt_llm.KIND, transformers.KIND, _ENDPOINT)
}
