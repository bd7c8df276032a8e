"""Samples with anything changed in them are read or refused, never a crash: found by hypothesis, for each importer."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interchange.files import ForeignFile
from interchange.reading import read_runs
from lab.errors import ForeignFileError
from tests.interchange.sample_files import SAMPLES
from tests.interchange.test_aggregates import (
    BENCHY,
    LLAMA,
    LOADGEN,
    REPORT,
    RESPONSES,
    SECOND,
    SETTING,
    SUMMARY,
    TRTLLM,
)
from tests.interchange.test_model_answers import line
from warehouse.bundles.imported_run import ImportedRun

_FILES = (
    "vllm-bench/spec-somefail-c4.json",
    "vllm-bench/spec-code-append-c4.json",
    "vllm-bench-sweep/SERVE--spec-k3-BENCH--c1/run=0.json",
    "guidellm/spec-code-synchronous.json",
    "aiperf/spec-code-c2/profile_export_aiperf.json",
    "aiperf/spec-code-c2/profile_export.jsonl",
    "sglang-bench-serving/spec-random64x48-c4.jsonl",
    "genai-bench/spec-d64x32-c2-4/D64_32_text-to-text_num_concurrency_2_time_4s.json",
    "genai-bench/spec-d64x32-c2-4/experiment_metadata.json",
    "inference-perf/spec-synthetic64x32-c2-4/stage_0_lifecycle_metrics.json",
    "inference-perf/spec-synthetic64x32-c2-4/per_request_lifecycle_metrics.json",
)
_SMALL: dict[str, list[Any]] = {
    "llama-bench": [LLAMA],
    "llmperf summary": [SUMMARY],
    "llmperf responses": [RESPONSES],
    "inferencex": [[SETTING]],
    "llm-d": [SECOND],
    "trtllm-bench": [TRTLLM],
    "llama-benchy": [BENCHY],
    "answers": [line({"decoding_steps": [20, 15]}, "math"), line({"idxs": [19, 14]})],
}
_TEXTS = {"llm-d": REPORT, "loadgen": LOADGEN, "csv": f"{','.join(LLAMA)}\n{','.join(map(str, LLAMA.values()))}\n"}
_EVERY = pytest.mark.parametrize("name", [*_FILES, *_SMALL])
_FUZZ = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
_LONGEST_LIST = 3
_JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from([0, -1, 1e308, 5e-324, 2**53, 2**80, "inf", "", "NaN", [], {}, [[]], [{}], [None], {"": 0}]),
    st.text(max_size=8),
    st.lists(st.floats(0, 10), max_size=4),
)


def _cut(value: Any) -> Any:
    """The same with short lists: as many kinds of places, and quick to read."""
    if isinstance(value, dict):
        return {key: _cut(inner) for key, inner in value.items()}
    return [_cut(inner) for inner in value[:_LONGEST_LIST]] if isinstance(value, list) else value


def _documents(name: str) -> list[Any]:
    if name in _SMALL:
        return copy.deepcopy(_SMALL[name])
    text = (SAMPLES / name).read_text(encoding="utf-8")
    lines = text.splitlines() if "\n{" in text.strip() and "\n  " not in text else [text]
    documents = [_cut(json.loads(line)) for line in lines[:_LONGEST_LIST]]
    for benchmark in documents[0].get("benchmarks", []) if isinstance(documents[0], dict) else []:
        benchmark["metrics"] = {"request_totals": {"successful": _LONGEST_LIST, "errored": 0, "incomplete": 0}}
        benchmark["scheduler_state"] = {}
    return documents


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, inner in items for place in _places(inner, (*path, key)))]


def _put(value: Any, path: tuple[Any, ...], junk: Any, *, remove: bool) -> Any:
    if not path:
        return junk
    changed = dict(value) if isinstance(value, dict) else list(value)
    if remove and len(path) == 1:
        del changed[path[0]]
    else:
        changed[path[0]] = _put(value[path[0]], path[1:], junk, remove=remove)
    return changed


def _read_or_refused(name: str, content: bytes) -> None:
    """A metadata file is no run of its own, so it gets one that it tells about."""
    beside = [ForeignFile("run.json", _GENAI)] if name.endswith("experiment_metadata.json") else []
    try:
        runs = read_runs([ForeignFile(Path(name).name, content), *beside]).runs
    except ForeignFileError as error:
        refusal = str(error)
    else:
        refusal = "read"
        for run in runs:
            _sane(run)
    assert refusal.strip()
    assert "\n" not in refusal


_GENAI = (SAMPLES / _FILES[7]).read_bytes()


def _sane(run: ImportedRun) -> None:
    for name, value in run.metrics.items():
        for number in value if isinstance(value, tuple) else (value,):
            assert number is None or (math.isfinite(number) and number >= 0), (name, value)
    json.dumps([dict(run.columns), dict(run.labels), run.printed], allow_nan=False).encode()


@_EVERY
@_FUZZ
@given(data=st.data())
def test_any_value_may_be_anything(name: str, data: st.DataObject) -> None:
    documents = _documents(name)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(documents) - 1))
        path = data.draw(st.sampled_from(_places(documents[place])))
        documents[place] = _put(documents[place], path, data.draw(_JUNK), remove=data.draw(st.booleans()))
    _read_or_refused(name, "\n".join(map(json.dumps, documents)).encode())


@_EVERY
@_FUZZ
@given(data=st.data())
def test_any_bytes_may_be_cut_changed_or_repeated(name: str, data: st.DataObject) -> None:
    _change(name, "\n".join(map(json.dumps, _documents(name))).encode(), data)


@pytest.mark.parametrize("name", _TEXTS)
@_FUZZ
@given(data=st.data())
def test_texts_may_be_cut_changed_or_repeated(name: str, data: st.DataObject) -> None:
    _change(name, _TEXTS[name].encode(), data)


def _change(name: str, content: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(start, min(len(content), start + 200)))
    put = data.draw(st.binary(max_size=8) | st.sampled_from([b"", content[start:end] * 2, b'"', b"}", b",", b"\xff"]))
    _read_or_refused(name, content[:start] + put + content[end:])


@given(st.binary(max_size=200))
def test_any_bytes_at_all_are_refused(content: bytes) -> None:
    with pytest.raises(ForeignFileError):
        read_runs([ForeignFile("any", content)])
