"""What would fill the disk is refused before it begins, and a user's imports have a measure."""

from __future__ import annotations

from pathlib import Path

import pytest

from host.disk_space import refuse_full_disk
from interchange.store import import_paths
from jobs.datasets.listing import add_dataset
from lab.errors import ForeignFileError, UserError
from tests.actors import ADMIN, SUBMITTER
from tests.interchange.sample_files import SAMPLES
from tests.workers.homes import Home

FULL = 2**40  # MiB: no disk has as much
SAMPLE = SAMPLES / "vllm-bench" / "base-code-c1.json"


def test_a_missing_folder_counts_as_where_it_will_be(tmp_path: Path) -> None:
    refuse_full_disk(tmp_path / "a" / "b", 0, "it")
    with pytest.raises(
        UserError, match=r"it needs more disk space: .* MiB are free at .*/a/b, and at least .* MiB must be"
    ):
        refuse_full_disk(tmp_path / "a" / "b", FULL, "it")


def test_without_room_nothing_is_imported_or_registered(home: Home) -> None:
    full = home.settings.model_copy(update={"least_free_mib": FULL})
    with pytest.raises(UserError, match="the import needs more disk space"):
        import_paths(full, [SAMPLE], actor=SUBMITTER)
    with pytest.raises(UserError, match="a dataset needs more disk space"):
        add_dataset(full, "mine", home.folder / "prompts.jsonl", actor=ADMIN)
    assert not any(home.settings.bundles.glob("*/*"))


def test_a_users_imports_of_a_day_have_a_measure_of_their_own(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    import_paths(home.settings, [SAMPLE], actor=SUBMITTER)
    size_mib = SAMPLE.stat().st_size / 2**20
    monkeypatch.setattr("interchange.store.MIB", int(size_mib * 2**20 * 1.5))
    tight = home.settings.model_copy(update={"import_mib_per_day": 1})
    with pytest.raises(
        ForeignFileError, match=r"within 24 hours, .* \(DRAFTHOUSE_IMPORT_MIB_PER_DAY\): import the rest"
    ):
        import_paths(tight, [SAMPLE], actor=SUBMITTER)
    import_paths(tight, [SAMPLE], actor=ADMIN)
