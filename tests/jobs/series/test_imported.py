"""Results that a CI imports form a series: a job is a night, and what follows confirms a suspicious one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from interchange.store import import_paths
from jobs.series import nightly, store
from jobs.series.store import Night
from tests.actors import ADMIN
from tests.interchange.sample_files import SAMPLES
from tests.jobs.series.nights import remember
from tests.workers.homes import Home
from warehouse.app_db.schema import nights as nights_table
from warehouse.ingest.service import ingest_all

_BASE, _DRAFTED = (
    json.loads((SAMPLES / "vllm-bench" / f"{name}-code-c1.json").read_text()) for name in ("base", "spec")
)


def result(file: Path, sample: dict[str, object], number: int, tokens_per_s: float) -> Path:
    """The printed figures of a run at this throughput, without its requests."""
    factor = float(str(sample["output_throughput"])) / tokens_per_s
    printed: dict[str, object] = {"date": f"202611{number:02}-022401"}
    for name, value in sample.items():
        if isinstance(value, float) and (name == "duration" or name.endswith("_ms")):
            printed[name] = value * factor
        elif isinstance(value, float) and name.endswith("_throughput"):
            printed[name] = value / factor
        elif name != "date" and not isinstance(value, list):
            printed[name] = value
    file.write_text(json.dumps(printed))
    return file


def import_commit(home: Home, number: int, commit: str, speedup: float | None) -> None:
    """As a CI does it: a file for each arm, under labels. Without a speed-up the baseline is forgotten."""
    common = {"study": f"ci {number}", "series": "nightly", "commit": commit}
    if speedup is not None:
        base = result(home.folder / "base.json", _BASE, number, 40.0)
        import_paths(home.settings, [base], labels=common | {"arm": "plain", "baseline": "true"}, actor=ADMIN)
    drafted = result(home.folder / "drafted.json", _DRAFTED, number, 40.0 * (speedup or 1.0))
    import_paths(home.settings, [drafted], labels=common | {"arm": "drafted"}, actor=ADMIN)
    ingest_all(home.settings)


def tend(home: Home) -> list[Night]:
    """The nights since June, some minutes after the last import."""
    nightly.tend(home.settings, home.database, datetime.now(UTC) + timedelta(minutes=3))
    return [night for night in store.nights(home.database, "nightly") if night.label is not None]


@pytest.fixture
def lab(home: Home) -> Home:
    store.add_imported(home.database, "nightly", None, actor=ADMIN)
    remember(home)
    return home


def test_later_commits_confirm_a_fall_and_the_alarm_is_of_the_commit_that_fell(lab: Home) -> None:
    import_commit(lab, 1, "aaa", 1.164)
    nightly.tend(lab.settings, lab.database, datetime.now(UTC))
    assert [night for night in store.nights(lab.database, "nightly") if night.label] == []  # more may come
    (usual,) = tend(lab)
    assert (usual.arm, usual.state, usual.speedup_finding) == ("drafted", "measured", "usual")
    assert usual.speedup == pytest.approx(1.164, rel=0.001)
    import_commit(lab, 2, "bbb", 0.95)
    assert [night.speedup_finding for night in tend(lab)] == ["usual", "suspicious"]
    assert store.alarms(lab.database) == []
    import_commit(lab, 3, "ccc", 0.95)
    _, fell, again, own = tend(lab)
    assert (fell.label, fell.speedup_finding) == ("bbb", "fall")
    assert (again.again_of, again.label) == (fell.night_id, "ccc")
    assert (own.again_of, own.label, own.speedup_finding) == (None, "ccc", "learning")
    (alarm,) = store.alarms(lab.database)
    assert alarm.night_id == fell.night_id
    assert tend(lab) == [usual, fell, again, own]


def test_a_second_import_of_a_suspicious_commit_is_its_remeasurement(lab: Home) -> None:
    for number, speedup in ((1, 0.95), (2, 1.16)):
        import_commit(lab, number, "aaa", speedup)
        nights = tend(lab)
    assert [(night.again_of is None, night.speedup_finding) for night in nights] == [(True, "outlier"), (False, None)]
    assert store.alarms(lab.database) == []


def test_a_kill_between_the_row_of_a_night_and_its_values_loses_nothing(lab: Home) -> None:
    import_commit(lab, 1, "aaa", 1.164)
    (whole,) = tend(lab)
    with lab.database.begin() as connection:
        unset = dict.fromkeys(("speedup", "low", "high", "acceptance_length", "speedup_finding", "predicted_low"))
        row = nights_table.c.night_id == whole.night_id
        connection.execute(sa.update(nights_table).where(row).values(unset | {"state": "queued"}))
    assert tend(lab) == [whole]


def test_an_import_without_a_baseline_is_an_invalid_night_with_the_reason(lab: Home) -> None:
    import_commit(lab, 1, "aaa", None)
    (night,) = tend(lab)
    assert night.state == "invalid"
    assert "baseline" in (night.note or "")
