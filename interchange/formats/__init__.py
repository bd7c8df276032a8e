"""The supported formats of result files, with one module per tool."""

from __future__ import annotations

from interchange.fields import Format
from interchange.formats import (
    aiperf,
    genai_bench,
    genai_perf,
    guidellm,
    inference_perf,
    model_answers,
    sglang_bench,
    vllm_bench,
)
from interchange.formats.aggregates import (
    inferencex,
    llama_bench,
    llama_benchy,
    llmd_report,
    llmperf,
    mlperf,
    trtllm_bench,
    vllm_offline,
)

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
        mlperf.FORMAT,
        llmd_report.FORMAT,
        llama_bench.FORMAT,
        llmperf.FORMAT,
        inferencex.FORMAT,
        vllm_offline.LATENCY,
        vllm_offline.THROUGHPUT,
        trtllm_bench.FORMAT,
        llama_benchy.FORMAT,
        model_answers.FORMAT,
    )
}
