"""A run's folder on disk: written whole or not at all, read back equal.

    <bundles>/<job_id>/<run_id>/run.json, requests.parquet, telemetry.parquet, engine.log

A bundle is written under a hidden temporary name, every file and the folder are fsynced, then it is renamed: a reader
sees all of it or nothing. It is never changed afterwards.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError

from lab.errors import BundleError
from lab.metrics.records import READABLE_FORMAT_VERSIONS, RequestRecord, RunRecord, TelemetrySample

RUN_FILE, REQUESTS_FILE, TELEMETRY_FILE, LOG_FILE = "run.json", "requests.parquet", "telemetry.parquet", "engine.log"
_TEMPORARY = ".writing-"

_REQUEST_FIELDS_1: list[pa.Field[Any]] = [
    pa.field("index", pa.int32(), nullable=False),
    pa.field("prompt_id", pa.string(), nullable=False),
    pa.field("category", pa.string()),
    pa.field("prompt", pa.string(), nullable=False),
    pa.field("requested_output_tokens", pa.int32(), nullable=False),
    pa.field("intended_send_s", pa.float64(), nullable=False),
    pa.field("sent_s", pa.float64()),
    pa.field("first_token_s", pa.float64()),
    pa.field("end_s", pa.float64()),
    pa.field("chunk_s", pa.list_(pa.float64()), nullable=False),
    pa.field("chunk_tokens", pa.list_(pa.int32())),
    pa.field("prompt_tokens", pa.int32()),
    pa.field("completion_tokens", pa.int32()),
    pa.field("finish_reason", pa.string()),
    pa.field("error", pa.string()),
    pa.field("output_text", pa.string(), nullable=False),
    pa.field("spec_drafts", pa.int32()),
    pa.field("spec_draft_tokens", pa.int32()),
    pa.field("spec_accepted_tokens", pa.int32()),
]
_REQUEST_FIELDS_3: list[pa.Field[Any]] = [pa.field("sent_prompt_tokens", pa.int32())]
_REQUEST_FIELDS_4: list[pa.Field[Any]] = [pa.field("output_token_ids", pa.list_(pa.int32()))]
_TELEMETRY_FIELDS_1: list[pa.Field[Any]] = [
    pa.field("t_s", pa.float64(), nullable=False),
    pa.field("loop_lag_ms", pa.float64(), nullable=False),
    pa.field("requests_in_flight", pa.int32(), nullable=False),
    pa.field("requests_done", pa.int32(), nullable=False),
    pa.field("chunks_received", pa.int32(), nullable=False),
]
_TELEMETRY_FIELDS_2: list[pa.Field[Any]] = [
    pa.field("engine_running", pa.int32()),
    pa.field("engine_waiting", pa.int32()),
    pa.field("kv_cache_usage", pa.float64()),
    pa.field("host_cpu_percent", pa.float64()),
    pa.field("host_memory_used_bytes", pa.int64()),
    pa.field("gpu_utilisation_percent", pa.float64()),
    pa.field("gpu_memory_used_bytes", pa.int64()),
    pa.field("gpu_power_w", pa.float64()),
    pa.field("gpu_sm_clock_mhz", pa.float64()),
    pa.field("gpu_memory_clock_mhz", pa.float64()),
    pa.field("gpu_temperature_c", pa.float64()),
    pa.field("gpu_throttle_reasons", pa.string()),
]
_TELEMETRY_FIELDS_3: list[pa.Field[Any]] = [pa.field("gpu_other_processes", pa.int32())]
REQUESTS_SCHEMA = pa.schema(_REQUEST_FIELDS_1 + _REQUEST_FIELDS_3 + _REQUEST_FIELDS_4)
TELEMETRY_SCHEMA = pa.schema(_TELEMETRY_FIELDS_1 + _TELEMETRY_FIELDS_2 + _TELEMETRY_FIELDS_3)
#: What each format that can be read has in its files; what it lacks is unknown.
_REQUESTS_OF_FORMAT = {
    1: pa.schema(_REQUEST_FIELDS_1),
    2: pa.schema(_REQUEST_FIELDS_1),
    3: pa.schema(_REQUEST_FIELDS_1 + _REQUEST_FIELDS_3),
    4: REQUESTS_SCHEMA,
}
_TELEMETRY_OF_FORMAT = {
    1: pa.schema(_TELEMETRY_FIELDS_1),
    2: pa.schema(_TELEMETRY_FIELDS_1 + _TELEMETRY_FIELDS_2),
    3: TELEMETRY_SCHEMA,
    4: TELEMETRY_SCHEMA,
}


@dataclass(frozen=True)
class Bundle:
    """One run as it lies on disk."""

    folder: Path
    run: RunRecord
    requests: tuple[RequestRecord, ...]
    telemetry: tuple[TelemetrySample, ...]


def bundle_folder(root: Path, job_id: str, run_id: str) -> Path:
    return root / job_id / run_id


def write_bundle(
    root: Path,
    run: RunRecord,
    requests: Sequence[RequestRecord],
    telemetry: Sequence[TelemetrySample],
    log: Path | None,
) -> Path:
    """Write the bundle of `run` and return its folder; an existing one of the same id is left as it is.

    Raises OSError (a full disk, say); nothing of the bundle is left then.
    """

    def fill(writing: Path) -> None:
        (writing / RUN_FILE).write_text(run.model_dump_json(indent=1) + "\n", encoding="utf-8")
        _write_table(writing / REQUESTS_FILE, requests, REQUESTS_SCHEMA)
        _write_table(writing / TELEMETRY_FILE, telemetry, TELEMETRY_SCHEMA)
        if log is None:
            (writing / LOG_FILE).touch()
        else:
            shutil.copyfile(log, writing / LOG_FILE)

    final = bundle_folder(root, run.job_id, run.run_id)
    write_whole({final: fill})
    return final


def write_whole(bundles: Mapping[Path, Callable[[Path], None]]) -> None:
    """Let each function fill its bundle's folder; all of them are there afterwards, or (OSError) none of the new ones.

    What exists already is left as it is: a bundle is never changed.
    """
    staged: dict[Path, Path] = {}
    try:
        for final, fill in bundles.items():
            if final.exists():
                continue
            staged[final] = writing = final.with_name(f"{_TEMPORARY}{final.name}-{uuid.uuid4().hex[:8]}")
            writing.mkdir(parents=True)
            fill(writing)
            for path in (*writing.rglob("*"), writing):
                fsync(path)
        for final, writing in staged.items():
            _put(writing, final)
    finally:
        for writing in staged.values():
            shutil.rmtree(writing, ignore_errors=True)


def _put(writing: Path, final: Path) -> None:
    try:
        writing.rename(final)
    except OSError:
        if not final.exists():  # otherwise another worker finished the same run a moment earlier
            raise
    fsync(final.parent)


def _write_table(path: Path, rows: Sequence[RequestRecord] | Sequence[TelemetrySample], schema: pa.Schema) -> None:
    pq.write_table(pa.Table.from_pylist([asdict(row) for row in rows], schema=schema), path)


def read_bundle(folder: Path) -> Bundle:
    """Read one bundle. Raises BundleError for a folder that is not whole or of another format."""
    run = read_run(folder)
    requests = _read_table(folder / REQUESTS_FILE, _REQUESTS_OF_FORMAT[run.format_version])
    telemetry = _read_table(folder / TELEMETRY_FILE, _TELEMETRY_OF_FORMAT[run.format_version])
    return Bundle(folder, run, tuple(map(_request, requests)), tuple(TelemetrySample(**row) for row in telemetry))


def read_run(folder: Path) -> RunRecord:
    """Read `run.json` alone. Raises BundleError."""
    try:
        run = RunRecord.model_validate_json((folder / RUN_FILE).read_bytes())
    except (OSError, ValidationError) as error:
        raise BundleError(f"{folder / RUN_FILE} cannot be read: {error}") from None
    if run.format_version not in READABLE_FORMAT_VERSIONS:
        *earlier, newest = map(str, READABLE_FORMAT_VERSIONS)
        readable = f"{', '.join(earlier)} and {newest}"
        raise BundleError(
            f"{folder} has bundle format {run.format_version}; this Drafthouse reads {readable}: "
            "use the Drafthouse that wrote it, or a newer one"
        )
    return run


def read_log(folder: Path) -> bytes | None:
    """What the engine logged; None where nothing was kept. Raises BundleError."""
    try:
        return (folder / LOG_FILE).read_bytes() or None
    except OSError as error:
        raise BundleError(f"{folder / LOG_FILE} cannot be read: {error}") from None


def _request(row: dict[str, Any]) -> RequestRecord:
    return RequestRecord(**{key: _frozen(value) for key, value in row.items()})


def _read_table(path: Path, schema: pa.Schema) -> list[dict[str, Any]]:
    try:
        return list(pq.read_table(path, schema=schema).to_pylist())
    except (OSError, pa.ArrowException) as error:
        raise BundleError(f"{path} cannot be read: {error}") from None


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def find_bundles(root: Path) -> Iterator[Path]:
    """Every whole bundle under `root`, oldest job first; folders still being written are not seen."""
    for run_file in sorted(root.glob(f"*/*/{RUN_FILE}")):
        if not run_file.parent.name.startswith(_TEMPORARY):
            yield run_file.parent


def fsync(path: Path) -> None:
    """Make a file or folder outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
