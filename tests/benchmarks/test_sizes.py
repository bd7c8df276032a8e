"""A small version of part sizes, without its pages, which others serve and visit."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import sizes
from host.settings import Settings
from tests.postgresql import running_server


def test_part_sizes_prints_rounds_of_the_ingester_and_bundles_that_become_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sizes, "_ROUNDS", 2)
    with running_server() as server, sizes._lab(Settings(home=tmp_path), server) as own:
        sizes.show_rounds(own, 20)
        sizes.show_bundles(own, 2, 0.1)
    printed = capsys.readouterr().out
    for line in (
        "the first round",
        "a round at rest",
        "a round after a change",
        "all are visible after",
        "the last one to be visible",
    ):
        assert re.search(rf"{line} +\d+\.\d+ ", printed), printed
