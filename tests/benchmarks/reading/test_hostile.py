"""Part hostile in small: nobody's page is lost beside those who try to stop the lab."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from benchmarks.reading import hostile
from benchmarks.reading.filling import Size, fill
from host.settings import Settings


# the hostile ones are cut off in the middle of what they do
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_every_visitor_has_every_page_beside_one_hostile_visitor_of_each_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path / "home")
    fill(settings, Size(jobs=1, requests_per_run=20))
    monkeypatch.setattr(hostile, "READS_S", (0.1, 0.2))
    monkeypatch.setenv("DRAFTHOUSE_SQL_TIMEOUT_S", "1")
    alone, beside = hostile.measure(settings, visitors=3, hostile=len(hostile.ATTACKS), lasts_s=1.0)
    gc.collect()  # their sockets go here, and not in another test
    assert (alone.errors, beside.errors) == ([], [])
    assert alone.attacks == 0
    assert beside.attacks > len(hostile.ATTACKS)
    assert len(beside.seconds) >= 3
