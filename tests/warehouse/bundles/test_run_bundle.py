"""A bundle is written completely or not at all, and reads back equal."""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import BundleError
from lab.metrics.records import EngineLog, RequestRecord, TelemetrySample, record_fields
from tests.warehouse.generated import request_records
from tests.warehouse.runs import failed_request, records, request, run_record, write_run
from warehouse.bundles.run_bundle import (
    REQUESTS_FILE,
    RUN_FILE,
    TELEMETRY_FILE,
    find_bundles,
    read_bundle,
    read_log,
    read_run,
    write_bundle,
)

_SAMPLES = st.builds(
    TelemetrySample,
    t_s=st.floats(0, 1e6),
    loop_lag_ms=st.floats(0, 1e6),
    requests_in_flight=st.integers(0, 4096),
    requests_done=st.integers(0, 10**6),
    chunks_received=st.integers(0, 2**31 - 1),
    engine_running=st.none() | st.integers(0, 2**31 - 1),
    kv_cache_usage=st.none() | st.floats(0, 1),
    host_memory_used_bytes=st.none() | st.integers(0, 2**60),
    gpu_power_w=st.none() | st.floats(0, 1e5),
    gpu_throttle_reasons=st.none() | st.sampled_from(["", "sw_power_cap"]),
    gpu_other_processes=st.none() | st.integers(0, 9),
)


@given(st.lists(request_records(), max_size=4), st.lists(_SAMPLES, max_size=3), st.text(st.characters(codec="utf-8")))
def test_a_bundle_reads_back_equal(requests: list[RequestRecord], telemetry: list[TelemetrySample], error: str) -> None:
    run = run_record(status="failed", error=error)
    with tempfile.TemporaryDirectory() as root:
        folder = write_bundle(Path(root), run, requests, telemetry, None)
        bundle = read_bundle(folder)
    assert (bundle.run, records(bundle.requests), bundle.telemetry) == (run, tuple(requests), tuple(telemetry))


def test_a_bundle_is_never_changed_by_writing_its_run_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    assert write_run(tmp_path, (request(), request())) == folder
    assert len(read_bundle(folder).requests) == 1
    assert list(find_bundles(tmp_path)) == [folder]


@pytest.mark.parametrize("broken", [RUN_FILE, REQUESTS_FILE])
def test_a_broken_file_is_a_bundle_error_that_names_it(tmp_path: Path, broken: str) -> None:
    folder = write_run(tmp_path)
    (folder / broken).write_bytes(b"{")
    with pytest.raises(BundleError, match=broken):
        read_bundle(folder)


#: The columns of the Parquet files by the version of the format that added them, at their end. Files on disk have
#: these: a change here is a new version of the format.
_REQUESTS = {
    13: """index: int32 not null
prompt_id: string not null
category: string
prompt: string not null
requested_output_tokens: int32 not null
intended_send_s: double not null
sent_s: double
first_token_s: double
end_s: double
chunk_s: list<element: double> not null
chunk_tokens: list<element: int32>
prompt_tokens: int32
completion_tokens: int32
finish_reason: string
error: string
output_text: string not null
spec_drafts: int32
spec_draft_tokens: int32
spec_accepted_tokens: int32
sent_prompt_tokens: int32
output_token_ids: list<element: int32>
session_id: string
turn: int32
rounds_drafted: list<element: int32>
rounds_accepted: list<element: int32>
rounds_count: list<element: int32>
reasoning_tokens: int32
reasoning_chars: int32
first_answer_s: double
expected: string
tests_passed: double
reasoning_rounds: int32
reasoning_accepted_tokens: int32""",
    14: """cached_prompt_tokens: int32
resent: int32""",
    15: "round: int32",
}
_TELEMETRY = {
    13: """t_s: double not null
loop_lag_ms: double not null
requests_in_flight: int32 not null
requests_done: int32 not null
chunks_received: int32 not null
engine_running: int32
engine_waiting: int32
kv_cache_usage: double
host_cpu_percent: double
host_memory_used_bytes: int64
gpu_utilisation_percent: double
gpu_memory_used_bytes: int64
gpu_power_w: double
gpu_sm_clock_mhz: double
gpu_memory_clock_mhz: double
gpu_temperature_c: double
gpu_throttle_reasons: string
gpu_other_processes: int32""",
    14: """other_cpu_percent: double
run_queue: int32
memory_pressure_percent: double
cpu_mhz: double
cpu_throttled_percent: double""",
}


def test_the_files_of_a_bundle_have_the_columns_of_its_format(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    for file, added in ((REQUESTS_FILE, _REQUESTS), (TELEMETRY_FILE, _TELEMETRY)):
        written = pq.read_schema(folder / file)
        columns = [f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in written]
        assert columns == "\n".join(added.values()).split("\n")


@pytest.mark.parametrize(
    ("record", "added"), [(RequestRecord, _REQUESTS), (TelemetrySample, _TELEMETRY)], ids=["requests", "telemetry"]
)
def test_each_field_names_the_format_that_added_it(record: type[RequestRecord], added: dict[int, str]) -> None:
    since = {line.split(":")[0]: version for version, lines in added.items() for line in lines.split("\n")}
    assert {name: declared.since for name, declared in record_fields(record).items()} == since


def test_any_reader_of_parquet_reads_the_requests(tmp_path: Path) -> None:
    folder = write_run(tmp_path, (request(output_token_ids=(7, 8, 9, 151_935)), failed_request(index=1)))
    query = f"SELECT index, sent_s, chunk_s, chunk_tokens, output_token_ids, error FROM '{folder / REQUESTS_FILE}'"
    assert duckdb.sql(query).fetchall() == [
        (0, 0.1, [0.2, 0.4, 0.5], [1, 2, 1], [7, 8, 9, 151_935], None),
        (1, 0.1, [], None, None, "connection reset"),
    ]


def test_a_log_of_arbitrary_bytes_is_returned_unchanged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"half a character \xe2\x82\r\n")
    folder = write_bundle(tmp_path / "bundles", run_record(), (), (), log)
    engine_log = read_log(folder, read_run(folder))
    assert engine_log == EngineLog(b"half a character \xe2\x82\r\n")
