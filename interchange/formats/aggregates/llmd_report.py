"""llm-d's benchmark reports, in YAML or JSON: the results of several load generators in one form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BeforeValidator

from interchange.build import build_run
from interchange.fields import Figure, Format, Taken, has_keys, latency_columns, statistics_of, take
from interchange.files import printable
from interchange.json_reader import Document
from interchange.typed_json import Anything, Count, Name, Number, Part, Record, at, parse, whole
from warehouse.bundles.imported_run import ImportedRun, SourceFile, canonical_json

_OWNER = "a benchmark report of llm-d"
#: Milliseconds in a unit of latency.
_UNITS_MS = {"s": 1000.0, "s/token": 1000.0, "ms": 1.0, "ms/token": 1.0}
_LATENCIES = {"time_to_first_token": "ttft", "time_per_output_token": "tpot", "request_latency": "e2e"}
_VERSIONS = ("0.1", "0.2", "0.2.1")
_V1, _V2 = "metrics", "results.request_performance.aggregate"
#: Generators whose reports have the tokens that the client counted.
_CLIENT_COUNTS = ("inference-perf",)
_NO_TPOT = {
    "inference-perf": "divided by the client's own token count",
    "guidellm": "GuideLLM's includes the time to the first token",
}
_RATES = {"requests_per_sec": "request", "output_tokens_per_sec": "output_tok", "total_tokens_per_sec": "total_tok"}
_RATES_V2 = {"request_rate": "request", "output_token_rate": "output_tok", "total_token_rate": "total_tok"}
_COUNTED = "the client's count"


def _remark(ours: str) -> str:
    return "" if ours == "request" else _COUNTED


def _figures(ms_in: Mapping[str, float]) -> tuple[Figure, ...]:
    """Return the figures of both versions; `ms_in` has the milliseconds in each latency's unit."""
    return (
        Figure("scenario.model.name", "target", "if it is known"),
        Figure("scenario.load.standardized.rate_qps", "request_rate_rps"),
        Figure("scenario.load.standardized.concurrency", "concurrency", "infinity is none"),
        Figure("scenario.load.args.request_rate", "request_rate_rps", "of vLLM's benchmark"),
        Figure("scenario.load.args.max_concurrency", "concurrency", "of vLLM's benchmark"),
        Figure("scenario.load.args.num_prompts", "num_prompts", "of vLLM's benchmark"),
        Figure(f"{_V1}.time.duration", "duration_s", "not of inference-perf, whose value is the time of sending"),
        *(Figure(f"{_V1}.throughput.{key}", f"{ours}_per_s", _remark(ours)) for key, ours in _RATES.items()),
        *(Figure(f"{_V2}.throughput.{key}.mean", f"{ours}_per_s", _remark(ours)) for key, ours in _RATES_V2.items()),
        *(
            figure
            for path in (_V1, _V2)
            for key, ours in _LATENCIES.items()
            for figure in statistics_of(f"{path}.latency.{key}.{{}}", ours, "", ms_in[key])
        ),
        *(
            Figure(f"{path}.{key}.mean", None, why)
            for path in (_V1, _V2)
            for key, why in (
                ("requests.input_length", "a mean of lengths, counted by the generator"),
                ("requests.output_length", "a mean of lengths, counted by the generator"),
                ("latency.inter_token_latency", "gaps between chunks or tokens, by generator"),
                ("latency.normalized_time_per_output_token", "includes the time to the first token"),
            )
        ),
    )


_FIGURES = _figures(dict.fromkeys(_LATENCIES, 1000.0))
_NOTES = {
    "requests.total, failures, incomplete": "requests_completed and requests_failed",
    "time_per_output_token of inference-perf": f"left out ({_NO_TPOT['inference-perf']})",
    "time_per_output_token of GuideLLM": f"left out ({_NO_TPOT['guidellm']})",
    "scenario.stack, scenario.load.args.server.model_name": "target, if there is no other; a label hardware",
    "scenario.load.args.load.stages": "request_rate_rps or concurrency of inference-perf's stage",
    "scenario.load.name, scenario.load.standardized.tool": "a label generator",
    "versions": "of several reports of one run the first version is imported. The generator's own files are the same "
    "runs: import one of the two with --tool",
}


class _Requests(Record):
    total: Count
    failures: Count | None = None
    incomplete: Count | None = None


class _Stage(Record):
    rate: Number | None = None
    concurrency_level: Count | None = None


def _listed(value: object) -> object:
    return value if isinstance(value, list) else None


class _Report(Record):
    version: Name = None
    generator_v1: Name = at("scenario", "load", "name")
    generator_v2: Name = at("scenario", "load", "standardized", "tool")
    stages: Annotated[Anything | None, BeforeValidator(_listed)] = at("scenario", "load", "args", "load", "stages")
    stage_v1: Count | None = at("scenario", "load", "metadata", "stage")
    stage_v2: Count | None = at("scenario", "load", "standardized", "stage")
    file_type: Name = at("scenario", "load", "metadata", "file_type")
    served: Name = at("scenario", "load", "args", "server", "model_name")
    stack: Annotated[Anything | None, BeforeValidator(_listed)] = at("scenario", "stack")
    accelerators: Annotated[Anything | None, BeforeValidator(_listed)] = at("scenario", "host", "accelerator")
    requests_v1: _Requests | None = at("metrics", "requests")
    requests_v2: _Requests | None = at("results", "request_performance", "aggregate", "requests")
    latency_v1: dict[str, object] | None = at("metrics", "latency")
    latency_v2: dict[str, object] | None = at("results", "request_performance", "aggregate", "latency")

    @property
    def generator(self) -> str | None:
        return self.generator_v1 or self.generator_v2

    @property
    def requests(self) -> _Requests | None:
        return self.requests_v1 or self.requests_v2

    @property
    def latency(self) -> dict[str, object] | None:
        return self.latency_v1 or self.latency_v2


class _Accelerator(Record):
    model: Name = None
    count: Count | None = None


class _Component(Record):
    model: Name = at("standardized", "model", "name")
    replicas: Count = at("standardized", "replicas", default=1)
    accelerator: _Accelerator | None = at("standardized", "accelerator")


def _is_report(value: object) -> bool:
    return has_keys(value, "version", "scenario") and (has_keys(value, "metrics") or has_keys(value, "results"))


def _read(documents: Sequence[Document]) -> list[ImportedRun]:
    """Return the runs of one folder. Of reports on one run in several format versions, the first version is used."""
    runs: dict[str, tuple[Part, _Report, list[SourceFile]]] = {}
    for document in sorted(documents, key=_version):
        part = whole(document)
        report = part.parse(_Report, _OWNER)
        if report.version not in _VERSIONS:
            why = f"found version {report.version}; supported are {', '.join(_VERSIONS)}"
            raise part.error("version", why)
        counts = report.requests.model_dump() if report.requests else None
        stage = report.stage_v2 if report.stage_v1 is None else report.stage_v1
        same = "".join(canonical_json([report.generator, stage, counts, report.latency]))
        _, _, others = runs.setdefault(same, (part, report, []))
        others.append(document.file.source)
    return [_run(part, report, others[1:]) for part, report, others in runs.values()]


def _version(document: Document) -> str:
    return str(document.value.get("version")) if isinstance(document.value, dict) else ""


def _run(part: Part, report: _Report, others: Sequence[SourceFile]) -> ImportedRun:
    requests = report.requests
    if report.file_type == "session_lifecycle" or requests is None:
        raise part.document.error((), "a report on sessions, without figures of requests: import that of its stage")
    taken = take(part, _figures(_units(part, report)), _OWNER)
    _count(part, taken, requests)
    generator = report.generator or ""
    if generator in _NO_TPOT:
        taken.drop(latency_columns("tpot"), _NO_TPOT[generator])
    if generator in _CLIENT_COUNTS:
        taken.drop(["duration_s"], "the time of sending, not of the run")
    _describe(part, taken, report)
    hardware = _hardware(part, report)
    labels = {
        "generator": generator,
        "token_count": "client" if generator in _CLIENT_COUNTS else "",
        "hardware": hardware or "",
    }
    return build_run(
        FORMAT.name,
        part.document,
        part.content,
        taken,
        tool_version=report.version,
        companions=others,
        labels={name: label for name, label in labels.items() if label},
    )


def _units(part: Part, report: _Report) -> dict[str, float]:
    """Return the milliseconds in the unit of each latency. Raises ForeignFileError for any other unit."""
    latencies = report.latency or {}
    found: dict[str, float] = {}
    for key in _LATENCIES:
        latency = latencies.get(key)
        unit = latency.get("units", "s") if isinstance(latency, dict) else "s"
        if not isinstance(unit, str) or unit not in _UNITS_MS:
            why = f"one of {', '.join(_UNITS_MS)} is expected here, not {printable(repr(unit))}"
            raise part.document.error((key, "units"), why)
        found[key] = _UNITS_MS[unit]
    return found


def _count(part: Part, taken: Taken, requests: _Requests) -> None:
    failed = (requests.failures or 0) + (requests.incomplete or 0)
    if failed > requests.total:
        raise part.document.error((), f"{failed} of {requests.total} requests failed, which is impossible")
    taken.metrics["requests_completed"] = requests.total - failed
    if requests.failures is not None:
        taken.metrics["requests_failed"] = failed


def _describe(part: Part, taken: Taken, report: _Report) -> None:
    """Add the model and the stage's load, where the report has them."""
    models = {component.model for component in _components(part, report) if component.model}
    if taken.columns.get("target") in (None, "unknown"):
        taken.columns |= {"target": models.pop() if len(models) == 1 else report.served}
    stages = parse(list[_Stage], part.document, report.stages or [], _OWNER, ("scenario", "load", "args"))
    if report.stage_v1 is not None and report.stage_v1 < len(stages):
        stage = stages[report.stage_v1]
        taken.columns |= {"request_rate_rps": stage.rate or None, "concurrency": stage.concurrency_level or None}


def _components(part: Part, report: _Report) -> list[_Component]:
    return parse(list[_Component], part.document, report.stack or [], _OWNER, ("scenario", "stack"))


def _hardware(part: Part, report: _Report) -> str | None:
    """Return the accelerators as one text, like `16x H100`, if all are of one model and counted."""
    at_host = parse(list[_Accelerator], part.document, report.accelerators or [], _OWNER, ("scenario", "host"))
    engines = _components(part, report)
    found = [(1, accelerator) for accelerator in at_host]
    found += [(engine.replicas, engine.accelerator) for engine in engines if engine.accelerator]
    models = {accelerator.model for _, accelerator in found}
    counts = [replicas * accelerator.count for replicas, accelerator in found if accelerator.count]
    if len(models) != 1 or None in models or len(counts) < len(found):
        return None
    return f"{sum(counts)}x {models.pop()}"


FORMAT = Format(
    "llm-d-report",
    "llm-d benchmark report, YAML or JSON",
    ", ".join(_VERSIONS),
    _is_report,
    _read,
    _FIGURES,
    _NOTES,
    is_of_folder=True,
)
