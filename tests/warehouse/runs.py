"""Valid runs, requests and bundles with small overrides, and the warehouse of what a home has."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from host.settings import Settings
from lab.metrics.records import (
    Circumstances,
    ClientHealth,
    Identity,
    RequestRecord,
    RunRecord,
    ServerCounters,
    TelemetrySample,
)
from lab.metrics.request_table import RequestTable
from lab.study import Arm, Load, Sampling, Slo, Speculation, Workload
from warehouse.bundles.run_bundle import write_bundle
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse

DRAFT = Speculation(method="draft_model", model="reference-draft", num_speculative_tokens=3)
BASELINE_ARM, DRAFT_ARM = Arm(name="no draft"), Arm(name="draft", speculation=DRAFT)
TELEMETRY = (TelemetrySample(t_s=1.0, loop_lag_ms=0.5, requests_in_flight=1, requests_done=1, chunks_received=4),)


@contextlib.contextmanager
def ingested(settings: Settings) -> Iterator[duckdb.DuckDBPyConnection]:
    """Ingest what is new and open the published warehouse."""
    ingest_all(settings)
    with open_warehouse(settings.warehouse_file) as connection:
        yield connection


def circumstances(**changes: Any) -> Circumstances:
    return Circumstances.model_validate(
        {
            "hardware": "2-core processor",
            "host": "here",
            "cpu_count": 2,
            "memory_bytes": 2**33,
            "os": "Linux",
            "python_version": "3.11",
            "drafthouse_revision": "abc",
            "engine": "vllm",
            "engine_version": "0.32.0",
            "command": ("vllm", "serve"),
            "target_path": "/models/target",
            "start_s": 30.0,
            **changes,
        }
    )


def run_record(**changes: Any) -> RunRecord:
    """Return a completed run of the draft arm; `changes` replace whole fields."""
    values: dict[str, Any] = {
        "run_id": "run-1",
        "cell_key": f"cell of {changes.get('run_id', 'run-1')}",
        "job_id": "job-1",
        "study_id": "0" * 64,
        "study_name": "small",
        "target": "reference",
        "arm": DRAFT_ARM,
        "is_baseline": False,
        "workload": Workload(category="code", output_tokens=16),
        "load": Load(max_concurrency=1, num_prompts=2),
        "sampling": Sampling(),
        "slo": Slo(),
        "endpoint": "completions",
        "repeat": 0,
        "launch_index": changes.get("repeat", 0),
        "attempt": 0,
        "status": "completed",
        "started_at": "2026-11-21T04:00:00+00:00",
        "duration_s": 2.0,
        "beside": (),
        "client": ClientHealth(loop_lag_p99_ms=1.0, loop_lag_max_ms=2.0, late_send_max_ms=0.1, cpu_s=0.2),
        "circumstances": circumstances(),
    }
    return RunRecord.model_validate({**values, **changes})


def counters(**changes: Any) -> ServerCounters:
    return ServerCounters.model_validate(
        {
            "generation_tokens": 0.0,
            "num_drafts": 0.0,
            "num_draft_tokens": 0.0,
            "num_accepted_tokens": 0.0,
            "num_accepted_tokens_per_position": (0.0, 0.0, 0.0),
            **changes,
        }
    )


def request(**changes: Any) -> RequestRecord:
    """Sent at 0.1 s, first token at 0.2 s, then three more tokens in two chunks until 0.5 s; ended at 0.6 s."""
    values: dict[str, Any] = {
        "index": 0,
        "prompt_id": "p0",
        "category": "code",
        "prompt": "def f():",
        "requested_output_tokens": 16,
        "intended_send_s": 0.0,
        "sent_s": 0.1,
        "first_token_s": 0.2,
        "end_s": 0.6,
        "chunk_s": (0.2, 0.4, 0.5),
        "chunk_tokens": (1, 2, 1),
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "finish_reason": "length",
        "error": None,
        "output_text": "return 1",
    }
    return RequestRecord(**{**values, **changes})


def failed_request(**changes: Any) -> RequestRecord:
    nothing: dict[str, Any] = {
        "first_token_s": None,
        "chunk_s": (),
        "chunk_tokens": None,
        "prompt_tokens": None,
        "completion_tokens": None,
        "finish_reason": None,
        "error": "connection reset",
        "output_text": "",
    }
    return request(**{**nothing, **changes})


def records(table: RequestTable) -> tuple[RequestRecord, ...]:
    """Return the requests of a table as records."""
    rows: list[dict[str, Any]] = table.arrow.to_pylist()
    return tuple(RequestRecord(**{name: _tuple(value) for name, value in row.items()}) for row in rows)


def _tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def write_run(bundles: Path, requests: tuple[RequestRecord, ...] = (request(),), **changes: Any) -> Path:
    """Write the bundle of `run_record(**changes)`."""
    return write_bundle(bundles, run_record(**changes), requests, TELEMETRY, None)


def write_at_rate(settings: Settings, arm: str, repeat: int, tokens_per_s: float, **changes: Any) -> None:
    """Write a run of one request that takes a second, of the arm `base` or of another one."""
    tokens = round(tokens_per_s)
    workload = changes.get("workload")
    only = request(
        prompt_tokens=10 if workload is None else workload.input_tokens,
        sent_s=0.0,
        first_token_s=0.1,
        chunk_s=(0.1, 1.0),
        chunk_tokens=None,
        end_s=1.0,
        completion_tokens=tokens,
        requested_output_tokens=tokens,
    )
    write_run(
        settings.bundles,
        (only,),
        **{
            "run_id": f"{arm}-{repeat}",
            "arm": BASELINE_ARM if arm == "base" else DRAFT_ARM,
            "is_baseline": arm == "base",
            "repeat": repeat,
            **changes,
        },
    )


def cell(cell_id: str, **changes: Any) -> Identity:
    return Identity.model_validate(
        {"cell_id": cell_id, "arm_id": "a", "workload_id": "w", "load_id": "l", "dataset_digest": None, **changes}
    )


#: One small bundle of each format, each written by a Drafthouse of that time.
FORMATS = Path(__file__).parent / "bundles" / "formats"


def bundle_of_format(bundles: Path, version: int) -> Path:
    """Put the bundle of this format among the bundles."""
    place = Path(f"job-of-format-{version}", f"run-of-format-{version}")
    return shutil.copytree(FORMATS / place, bundles / place)
