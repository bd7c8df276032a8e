"""llama.cpp's llama-bench: JSON, JSON lines and CSV. It calls the library; no request is sent and no text sampled."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator

from interchange.fields import STD, Figure, Taken
from interchange.formats.aggregates.declared import declared
from interchange.typed_json import Count, Name, Number, Part, Record

_OWNER = "a result of llama-bench"


def _utc(text: str | None) -> str | None:
    """Return a time that llama-bench wrote in UTC; None for any other text."""
    try:
        return None if text is None else datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).isoformat()
    except ValueError:
        return None


_FIGURES: tuple[Figure, ...] = (
    Figure(
        "model_filename",
        "target",
        "without its folder",
        type=Annotated[Name, AfterValidator(lambda name: name and name.replace("\\", "/").rpartition("/")[2])],
    ),
    Figure("n_prompt", "input_tokens", "unless 0"),
    Figure("n_gen", "requested_output_tokens", "unless 0"),
    Figure("test_time", "started_at", type=Annotated[Name, AfterValidator(_utc)]),
    Figure("avg_ts", "total_tok_per_s", "mean over repetitions of n_prompt tokens, n_gen, or both"),
    Figure("avg_ns", None, "time of a repetition: neither ttft nor e2e"),
    Figure("stddev_ns", None, STD),
    Figure("stddev_ts", None, STD),
)
_NOTES = {
    "avg_ts, if n_prompt is 0": "output_tok_per_s as well",
    "build_number, build_commit": "engine_version (of llama.cpp), and the tool's version",
    "gpu_info, else cpu_info": "a label hardware",
}


class _Test(Record):
    n_prompt: Count
    n_gen: Count
    avg_ts: Number
    build_commit: Name = None
    build_number: Count | None = None
    gpu_info: Name = None
    cpu_info: Name = None


def _adjust(part: Part, taken: Taken) -> Mapping[str, str]:
    test = part.parse(_Test, _OWNER)
    taken.columns = {name: value for name, value in taken.columns.items() if value != 0}
    version = " ".join(str(value) for value in (test.build_number, test.build_commit) if value)
    taken.columns |= {"engine": "llama.cpp", "engine_version": version or None, "concurrency": 1}
    if not test.n_prompt:
        taken.metrics["output_tok_per_s"] = test.avg_ts
    hardware = test.gpu_info or test.cpu_info
    return {"hardware": hardware} if hardware else {}


FORMAT = declared(
    "llama-bench",
    "llama-bench, JSON, JSON lines or CSV",
    "llama.cpp b5863 to b9859",
    _FIGURES,
    _NOTES,
    keys=("build_commit", "model_filename", "n_prompt", "n_gen", "avg_ts"),
    needed=("n_prompt", "n_gen", "avg_ts"),
    tool_version="build_number",
    not_labels=("gpu_info", "samples_ns", "samples_ts"),
    adjust=_adjust,
)
