"""llama-benchy, --format json: tests like llama-bench's of any server, one run per prompt size and concurrency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from interchange.build import build_run
from interchange.fields import CHUNK_RATE, Figure, Format, has_keys, take
from interchange.json_reader import Document
from interchange.typed_json import Name, Numbers, Part, Record, all_known, at, parts, whole
from lab.metrics.run_data import statistics_ms
from warehouse.bundles.imported_run import ImportedRun

_OWNER = "a result of llama-benchy"
_FIGURES: tuple[Figure, ...] = (
    Figure("concurrency", "concurrency"),
    Figure("response_size", "requested_output_tokens"),
    Figure("e2e_ttft.mean", "ttft_mean_ms", "to the first chunk with text"),
    Figure("ttfr.mean", None, "to the first message, which may be empty"),
    Figure("est_ppt.mean", None, "less a network delay measured apart"),
    Figure("pp_throughput.mean", None, "prompt tokens: no column"),
    Figure("pp_req_throughput.mean", None, "prompt tokens: no column"),
    Figure("tg_throughput.mean", None, CHUNK_RATE),
    Figure("tg_req_throughput.mean", None, CHUNK_RATE),
    Figure("peak_throughput.mean", None, CHUNK_RATE),
    Figure("peak_req_throughput.mean", None, CHUNK_RATE),
)
_NOTES = {
    "model, version": "target, and the tool's version",
    "e2e_ttft.values": "the other statistics of ttft: one value per request",
    "prompt_size, context_size": "labels: the prompt also has a template",
    "timestamp": "a label: the end of all tests",
}


class _File(Record):
    model: Name = None
    version: Name = None


class _Values(Record):
    ttft_ms: Numbers | None = at("e2e_ttft", "values")


def _read(documents: Sequence[Document]) -> list[ImportedRun]:
    return [run for document in documents for run in _runs(whole(document))]


def _runs(part: Part) -> list[ImportedRun]:
    about = part.parse(_File, _OWNER)
    outer = part.labels([key for key in part.content if key not in ("model", "version", "max_concurrency")])
    return [
        _run(about, outer, benchmark) for benchmark in parts(part.document, part.content["benchmarks"], "benchmarks")
    ]


def _run(about: _File, outer: Mapping[str, str], part: Part) -> ImportedRun:
    taken = take(part, _FIGURES, _OWNER)
    taken.columns["target"] = about.model
    if values_ms := all_known(part.parse(_Values, _OWNER).ttft_ms):
        taken.metrics = {**statistics_ms("ttft", np.array(values_ms)), **taken.metrics}
    of_figures = {figure.path for figure in _FIGURES}
    return build_run(
        FORMAT.name,
        part.document,
        {**about.model_dump(), **outer, "benchmark": part.content},
        taken,
        tool_version=about.version,
        place=f"benchmarks[{part.at[-1]}]",
        labels={**outer, **part.labels([key for key in part.content if key not in of_figures])},
    )


FORMAT = Format(
    "llama-benchy",
    "llama-benchy, JSON",
    "0.2.2",
    lambda value: has_keys(value, "version", "latency_mode", "benchmarks"),
    _read,
    _FIGURES,
    _NOTES,
)
