"""InferenceMAX and InferenceX: aggregates of a benchmark, one record per setting. Their times are seconds, and their
throughput is per GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from interchange.fields import Figure, Taken, latencies_of
from interchange.formats.aggregates.declared import declared
from interchange.typed_json import Count, Name, Number, Part, Record

_GAP = "gaps between chunks, not tokens"
_LATENCIES: Mapping[str, str | tuple[str, str]] = {"ttft": "ttft", "tpot": "tpot", "itl": ("icl", _GAP), "e2el": "e2e"}
_SECONDS = 1000.0
_STATISTICS = ("mean", "median", "std", "p90", "p95", "p99", "p99.9")
_POWER = (
    "avg_power_w",
    "avg_total_gpu_power_w",
    "total_gpu_energy_j",
    *(f"joules_per_{of}" for of in ("successful_query", "input_token", "output_token", "total_token")),
)
_FIGURES: tuple[Figure, ...] = (
    Figure("model", "target"),
    Figure("conc", "concurrency"),
    Figure("framework", "engine"),
    *latencies_of("{statistic}_{latency}", _LATENCIES, "", _SECONDS, ("p50", *_STATISTICS)),
    *(Figure(f"{statistic}_intvty", None, "no column; 1 / tpot") for statistic in _STATISTICS),
    *(Figure(name, None, "of all GPUs or of one role, by its version") for name in _POWER),
    Figure("tput_per_gpu", None, "per GPU"),
    Figure("output_tput_per_gpu", None, "per GPU"),
    Figure("input_tput_per_gpu", None, "per GPU"),
)
_NOTES = {
    "tput_per_gpu × GPUs": "total_tok_per_s, if input and output add up; GPUs are tp × pp × pcp_size, or those that "
    "prefill and decode",
    "output_tput_per_gpu × GPUs": "output_tok_per_s; of separate GPUs those that decode",
    "spec_decoding, mtp": "method; none and off are a run without",
    "hw": "a label hardware, with the number of GPUs",
    "isl, osl": "labels: they only bound the lengths",
}
_NO_SPECULATION = ("none", "off", "false", "")


class _Record(Record):
    hw: Name = None
    tp: Count | None = None
    pp: Count | None = None
    pcp_size: Count | None = None
    num_prefill_gpu: Count | None = None
    num_decode_gpu: Count | None = None
    tput_per_gpu: Number
    output_tput_per_gpu: Number | None = None
    input_tput_per_gpu: Number | None = None
    spec_decoding: Name = None
    mtp: Any = None


def _adjust(part: Part, taken: Taken) -> Mapping[str, str]:
    record = part.parse(_Record, "an aggregate of InferenceX")
    prefill, decode = record.num_prefill_gpu, record.num_decode_gpu
    gpus = _gpus_of_one_node(record) if prefill is None or decode is None else prefill + decode
    if gpus:
        _add_rates(record, taken, gpus, decode if prefill and decode else gpus)
    if str(record.spec_decoding or record.mtp or "").lower() not in _NO_SPECULATION:
        taken.columns["method"] = record.spec_decoding or "mtp"
    return {"hardware": f"{gpus}x {record.hw}" if gpus else record.hw} if record.hw else {}


def _gpus_of_one_node(record: _Record) -> int | None:
    """Return the GPUs by which InferenceX divides: aggregates of before 2026 have neither pp nor pcp_size."""
    if record.tp is None:
        return None
    return record.tp * (1 if record.pp is None else record.pp) * (1 if record.pcp_size is None else record.pcp_size)


def _add_rates(record: _Record, taken: Taken, gpus: int, decoding: int) -> None:
    """Add the rates of all GPUs, unless input and output do not add up to the total: then GPUs are counted wrongly."""
    total = record.tput_per_gpu * gpus
    output = None if record.output_tput_per_gpu is None else record.output_tput_per_gpu * decoding
    if output is not None and record.input_tput_per_gpu is not None:
        others = record.input_tput_per_gpu * (gpus if decoding == gpus else gpus - decoding)
        if not math.isclose(output + others, total, rel_tol=0.005):
            taken.leave_out("tput_per_gpu", f"input and output of {gpus} GPUs do not add up to it")
            return
    taken.metrics |= {"total_tok_per_s": total, "output_tok_per_s": output}


FORMAT = declared(
    "inferencex",
    "InferenceMAX and InferenceX, aggregates",
    "2025-12 to 2026-06",
    _FIGURES,
    _NOTES,
    keys=("hw", "conc", "framework", "tput_per_gpu"),
    not_labels=("hw",),
    adjust=_adjust,
)
