"""Small versions of the parts that write, ingest and import."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.storing import bundles, imports, ingest
from host.settings import Settings
from interchange.files import ForeignFile
from interchange.reading import read_runs


def test_part_bundles_writes_the_same_requests_on_both_sides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = (bundles.written(side, tmp_path, 20) for side in ("ours", "theirs"))
    assert ours.bytes_a_request < theirs.bytes_a_request
    bundles.show_both([ours], [theirs])
    assert "first of a process, processor ms" in capsys.readouterr().out


def test_part_ingest_ingests_every_bundle_that_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ingest.measure(Settings(home=tmp_path), 1, count=20)
    printed = capsys.readouterr().out
    assert "requests/s, ingested together" in printed
    assert "requests/s, with checkpoints" in printed


def test_part_import_imports_its_file_into_a_new_home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = imports.made_result(tmp_path / "result.json", 20)
    imports.measure(Settings(home=tmp_path), file, 1)
    printed = capsys.readouterr().out
    assert "Import: a detailed result of 0.1 MiB" in printed
    assert "peak memory MiB" in printed
    (run,) = read_runs([ForeignFile("result.json", file.read_bytes())]).runs
    assert (run.tool, run.metrics["requests_completed"], run.doubts) == ("vllm-bench-serve", 20, ())
