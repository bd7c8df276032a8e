"""The supported formats of result files, with one module per tool."""

from __future__ import annotations

from interchange.fields import Format
from interchange.formats import aiperf, genai_bench, genai_perf, guidellm, inference_perf, sglang_bench, vllm_bench

FORMATS: dict[str, Format] = {
    format_.name: format_
    for format_ in (
        vllm_bench.FORMAT,
        vllm_bench.SWEEP,
        guidellm.FORMAT,
        aiperf.FORMAT,
        genai_perf.FORMAT,
        sglang_bench.FORMAT,
        genai_bench.FORMAT,
        inference_perf.FORMAT,
    )
}
