"""Small versions of the parts that write, ingest and import."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.storing import bundles, ingest
from warehouse.settings import Settings


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
