"""A disk that is full in the middle of a file leaves nothing of it behind."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from host.files import write_whole
from host.settings import Settings
from tests.migrated import copy_migrated
from tests.warehouse.runs import write_run
from tests.webapp.api.inside import inside
from workers.engine_runtime import engine_key


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process may have a byte."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this process makes its temporary files."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_bundle_that_cannot_be_packed_leaves_no_file(tmp_path: Path, scratch: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    copy_migrated(settings.home)
    write_run(settings.bundles, job_id="imported-1", run_id="run-1")
    with inside(settings) as client:
        assert client.get("/api/v1/jobs/imported-1/runs/run-1/bundle").status_code == 200
        with full_disk(), pytest.raises(OSError, match="File too large"):
            client.get("/api/v1/jobs/imported-1/runs/run-1/bundle")
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(("part", "status"), [("bytes=0-9", 206), ("lines=1", 400), ("bytes=99999999-", 416)])
def test_a_bundle_of_which_a_part_is_asked_leaves_no_file(
    tmp_path: Path, scratch: Path, part: str, status: int
) -> None:
    settings = Settings(home=tmp_path / "home")
    copy_migrated(settings.home)
    write_run(settings.bundles, job_id="imported-1", run_id="run-1")
    with inside(settings) as client:
        answer = client.get("/api/v1/jobs/imported-1/runs/run-1/bundle", headers={"Range": part})
    assert (answer.status_code, list(scratch.iterdir())) == (status, [])


def store_a_text(folder: Path) -> None:
    write_whole(folder / "vllm.json", "{}")


def store_key_file(folder: Path) -> None:
    engine_key.with_key(folder, "key", {})


@pytest.mark.parametrize("store", [store_a_text, store_key_file])
def test_a_file_that_cannot_be_written_leaves_no_other(tmp_path: Path, store: Callable[[Path], None]) -> None:
    with full_disk(), pytest.raises(OSError, match="File too large"):
        store(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
