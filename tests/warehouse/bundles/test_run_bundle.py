"""A bundle is written whole or not at all, and reads back equal."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import BundleError
from lab.metrics.records import RequestRecord, TelemetrySample
from tests.warehouse.generated import request_records
from tests.warehouse.runs import old_bundle, request, run_record, second_bundle, third_bundle, write_run
from warehouse.bundles.run_bundle import REQUESTS_FILE, RUN_FILE, find_bundles, read_bundle, read_log, write_bundle

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
def test_what_was_written_reads_back_equal(
    requests: list[RequestRecord], telemetry: list[TelemetrySample], error: str
) -> None:
    run = run_record(status="failed", error=error)
    with tempfile.TemporaryDirectory() as root:
        folder = write_bundle(Path(root), run, requests, telemetry, None)
        bundle = read_bundle(folder)
    assert (bundle.run, bundle.requests, bundle.telemetry) == (run, tuple(requests), tuple(telemetry))


def test_a_bundle_is_never_changed_by_writing_its_run_again(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    assert write_run(tmp_path, (request(), request())) == folder
    assert len(read_bundle(folder).requests) == 1
    assert list(find_bundles(tmp_path)) == [folder]


def test_the_engines_log_lies_beside_the_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("ready\n")
    folder = write_bundle(tmp_path / "bundles", run_record(), (), (), log)
    assert (folder / "engine.log").read_text() == "ready\n"


def test_a_log_that_cannot_be_read_leaves_no_bundle_behind(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        write_bundle(tmp_path, run_record(), (), (), tmp_path / "no log")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("broken", [RUN_FILE, REQUESTS_FILE])
def test_a_broken_file_is_a_bundle_error_that_names_it(tmp_path: Path, broken: str) -> None:
    folder = write_run(tmp_path)
    (folder / broken).write_bytes(b"{")
    with pytest.raises(BundleError, match=broken):
        read_bundle(folder)


def test_a_bundle_of_a_newer_format_names_the_remedy(tmp_path: Path) -> None:
    folder = write_run(tmp_path, format_version=5)
    with pytest.raises(BundleError, match="reads 1, 2, 3 and 4: use the Drafthouse that wrote it, or a newer one"):
        read_bundle(folder)


def test_a_bundle_of_the_first_format_is_still_read_and_what_it_lacks_is_unknown(tmp_path: Path) -> None:
    folder = old_bundle(tmp_path)
    bundle = read_bundle(folder)
    assert (bundle.run.format_version, bundle.run.identity, bundle.run.prompts_seed) == (1, None, None)
    assert bundle.run.circumstances.driver_version is None
    assert [(sample.t_s, sample.chunks_received, sample.gpu_power_w) for sample in bundle.telemetry] == [(1.0, 4, None)]
    assert len(bundle.requests) == 1


def test_a_bundle_of_the_second_format_is_still_read_and_what_it_lacks_is_unknown(tmp_path: Path) -> None:
    bundle = read_bundle(second_bundle(tmp_path))
    assert (bundle.run.format_version, bundle.run.log_begin_bytes, bundle.run.log_end_bytes) == (2, None, None)
    assert [sample.gpu_other_processes for sample in bundle.telemetry] == [None]
    assert [(each.sent_prompt_tokens, each.output_token_ids) for each in bundle.requests] == [(None, None)]


def test_a_bundle_of_the_third_format_is_still_read_and_what_it_lacks_is_unknown(tmp_path: Path) -> None:
    bundle = read_bundle(third_bundle(tmp_path))
    assert bundle.run.format_version == 3
    assert [(each.sent_prompt_tokens, each.output_token_ids) for each in bundle.requests] == [(9, None)]


def test_a_log_is_read_as_it_is_whatever_bytes_are_in_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"half a character \xe2\x82\r\n")
    folder = write_bundle(tmp_path / "bundles", run_record(), (), (), log)
    assert read_log(folder) == b"half a character \xe2\x82\r\n"
