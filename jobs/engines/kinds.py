"""The kinds of engines, by name."""

from __future__ import annotations

from collections.abc import Mapping

from jobs.engines import endpoint, sglang, tensorrt_llm, transformers, vllm
from jobs.engines.kind import Kind

KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (vllm.KIND, sglang.KIND, tensorrt_llm.KIND, transformers.KIND, endpoint.KIND)
}
