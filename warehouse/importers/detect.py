"""Every supported format by name, and which of them a file is: told by its content, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from warehouse.importers.fields import Field
from warehouse.importers.formats import (
    aiperf,
    genai_bench,
    guidellm,
    inference_perf,
    inference_perf_requests,
    sglang_bench,
    vllm_bench,
)
from warehouse.importers.json_reader import Document
from warehouse.importers.model import ImportedRun

Recogniser = Callable[[object], bool]


@dataclass(frozen=True)
class Format:
    """`read` gets the documents of one folder that are of this format."""

    title: str
    seen_versions: str  # whose files it was tested with
    recognises: tuple[Recogniser, ...]
    read: Callable[[Sequence[Document]], list[ImportedRun]]
    fields: tuple[Field, ...]
    also_read: Mapping[str, str]


def _plain_vllm(value: object) -> bool:
    return vllm_bench.recognises(value) and not vllm_bench.is_sweep(value)


def _vllm_sweep(value: object) -> bool:
    return vllm_bench.recognises(value) and vllm_bench.is_sweep(value)


FORMATS: dict[str, Format] = {
    "vllm-bench-serve": Format(
        "`vllm bench serve`, plain, detailed or appended",
        "vLLM 0.32.0",
        (_plain_vllm,),
        vllm_bench.read,
        vllm_bench.FIELDS,
        vllm_bench.ALSO_READ,
    ),
    "vllm-bench-sweep": Format(
        "`vllm bench sweep`",
        "vLLM 0.32.0",
        (_vllm_sweep,),
        vllm_bench.read,
        vllm_bench.FIELDS,
        vllm_bench.ALSO_READ,
    ),
    "guidellm": Format(
        "GuideLLM, benchmarks.json",
        "0.8.1, report version 2",
        (guidellm.recognises,),
        guidellm.read,
        guidellm.FIELDS,
        guidellm.ALSO_READ,
    ),
    "aiperf": Format(
        "AIPerf, profile_export_aiperf.json and profile_export.jsonl",
        "0.13.0, schema 1.4",
        (aiperf.recognises, aiperf.is_request),
        aiperf.read,
        aiperf.FIELDS,
        aiperf.ALSO_READ,
    ),
    "sglang-bench-serving": Format(
        "SGLang `bench_serving`, JSONL",
        "0.5.23",
        (sglang_bench.recognises,),
        sglang_bench.read,
        sglang_bench.FIELDS,
        sglang_bench.ALSO_READ,
    ),
    "genai-bench": Format(
        "genai-bench, with its experiment_metadata.json",
        "0.0.5",
        (genai_bench.recognises, genai_bench.is_metadata),
        genai_bench.read,
        genai_bench.FIELDS,
        genai_bench.ALSO_READ,
    ),
    "inference-perf": Format(
        "inference-perf, reports of stages and requests",
        "0.7.0",
        (inference_perf.recognises, inference_perf_requests.recognises),
        inference_perf.read,
        inference_perf.FIELDS,
        inference_perf.ALSO_READ,
    ),
}


def format_of(value: object) -> str | None:
    """The name of the format that this JSON value is of; None where it is none of them."""
    return next((name for name, one in FORMATS.items() if any(is_it(value) for is_it in one.recognises)), None)
