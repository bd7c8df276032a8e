"""Which drafts remember the answers of earlier requests, by the kind of engine."""

from __future__ import annotations

from collections.abc import Iterator

from jobs.engines.capabilities import Capabilities
from lab.study import Arm, Speculation, Study

#: Options that end it.
WITHOUT = {
    "vllm": "suffix_decoding_max_cached_requests = 0",
    "tensorrt_llm": "is_public_pool = false",
}


def remembers(kind: str, speculation: Speculation) -> bool:
    """Return whether a draft keeps answers, or what it learnt from them, for later requests of the same process."""
    method, options = speculation.method, speculation.options
    if kind == "sglang":  # its n-gram cache holds what the process has generated
        return method == "ngram" or options.get("adaptive") is True
    if kind == "tensorrt_llm":
        pooled = method == "ngram" and options.get("is_public_pool") is not False
        return pooled or (method == "suffix" and options.get("enable_global_pool") is True)
    return speculation.remembers


def memory_problems_of_drafts(study: Study, arm: Arm, has: Capabilities) -> Iterator[tuple[str, str]]:
    """Yield a draft that remembers by its engine's kind, which the plan of the study cannot know by its method."""
    if arm.speculation is None or study.fresh_starts != "as_declared" or study.starts_each_cell(arm):
        return
    if arm.server is None and remembers(has.kind, arm.speculation):
        without = f"; or set {WITHOUT[has.kind]} in its options" if has.kind in WITHOUT else ""
        problem = (
            f"{arm.speculation.method} of {has.engine} keeps the answers of earlier requests, so later cells would "
            f'replay those of the cells before: set "every_cell" for an engine start each, or "never"{without}'
        )
        yield "fresh_starts", problem
