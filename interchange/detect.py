"""Every supported format by name, and detection of a file's format by its content, never by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from interchange.fields import Figure
from interchange.formats import (
    aiperf,
    aiperf_requests,
    genai_bench,
    guidellm,
    inference_perf,
    inference_perf_requests,
    sglang_bench,
    vllm_bench,
)
from interchange.json_reader import Document
from warehouse.bundles.imported_run import ImportedRun

Recogniser = Callable[[object], bool]


@dataclass(frozen=True)
class Format:
    """A format of result files. `read` gets the documents of one folder that have this format."""

    title: str
    seen_versions: str  # of the tool whose files the importer was tested with
    detect: tuple[Recogniser, ...]
    read: Callable[[Sequence[Document]], list[ImportedRun]]
    fields: tuple[Figure, ...]
    passthrough: Mapping[str, str]
    is_of_folder: bool = False  # whether several files of a folder describe one run


def _plain_vllm(value: object) -> bool:
    return vllm_bench.detect(value) and not vllm_bench.is_sweep(value)


def _vllm_sweep(value: object) -> bool:
    return vllm_bench.detect(value) and vllm_bench.is_sweep(value)


FORMATS: dict[str, Format] = {
    "vllm-bench-serve": Format(
        "`vllm bench serve`, plain, detailed or appended",
        "vLLM 0.32.0",
        (_plain_vllm,),
        vllm_bench.read,
        vllm_bench.FIELDS,
        vllm_bench.PASSTHROUGH,
    ),
    "vllm-bench-sweep": Format(
        "`vllm bench sweep`",
        "vLLM 0.32.0",
        (_vllm_sweep,),
        vllm_bench.read,
        vllm_bench.FIELDS,
        vllm_bench.PASSTHROUGH,
    ),
    "guidellm": Format(
        "GuideLLM, benchmarks.json",
        "0.8.1, report version 2",
        (guidellm.detect,),
        guidellm.read,
        guidellm.FIELDS,
        guidellm.PASSTHROUGH,
    ),
    "aiperf": Format(
        "AIPerf, profile_export_aiperf.json and profile_export.jsonl",
        "0.13.0, schema 1.4",
        (aiperf.detect, aiperf_requests.detect),
        aiperf.read,
        aiperf.FIELDS,
        aiperf.PASSTHROUGH,
        is_of_folder=True,
    ),
    "sglang-bench-serving": Format(
        "SGLang `bench_serving`, JSONL",
        "0.5.23",
        (sglang_bench.detect,),
        sglang_bench.read,
        sglang_bench.FIELDS,
        sglang_bench.PASSTHROUGH,
    ),
    "genai-bench": Format(
        "genai-bench, with its experiment_metadata.json",
        "0.0.5",
        (genai_bench.detect, genai_bench.is_metadata),
        genai_bench.read,
        genai_bench.FIELDS,
        genai_bench.PASSTHROUGH,
        is_of_folder=True,
    ),
    "inference-perf": Format(
        "inference-perf, reports of stages and requests",
        "0.7.0",
        (inference_perf.detect, inference_perf_requests.detect),
        inference_perf.read,
        inference_perf.FIELDS,
        inference_perf.PASSTHROUGH,
        is_of_folder=True,
    ),
}


def format_of(value: object) -> str | None:
    """The name of this JSON value's format, or None if no supported format matches."""
    return next((name for name, format_ in FORMATS.items() if any(is_it(value) for is_it in format_.detect)), None)
