"""A preset scaled down, run for real.

`python -m benchmarks presets` runs all of them so.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.presets import measured
from tests.workers.homes import REPOSITORY
from warehouse.settings import Settings

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


def test_every_run_of_a_presets_reference_version_completes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)  # where engines.toml and the prepared models are
    settings = Settings()
    assert Path(settings.models_dir, "prepared").exists(), "run `make models`"
    row = measured(settings, "engines")
    print(row.cells())
    assert row.ours[0] > 0
