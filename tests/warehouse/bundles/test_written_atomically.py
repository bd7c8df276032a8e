"""The order in which bundles reach the disk: contents and folders are synced, then renamed, then the parent synced."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from lab.errors import BundleError
from lab.metrics.records import BUNDLE_FORMAT_VERSION
from tests.warehouse.runs import request, run_record, write_run
from warehouse.bundles.run_bundle import (
    LOG_FILE,
    REQUESTS_FILE,
    RUN_FILE,
    TELEMETRY_FILE,
    find_bundles,
    read_bundle,
    read_log,
    read_run,
    write_atomically,
    write_bundle,
)


def test_every_file_and_both_folders_are_synced_around_the_rename(tmp_path: Path, steps: list[str]) -> None:
    folder = write_run(tmp_path)
    *before, renamed, after = steps
    temporary = renamed.removeprefix("rename ").removesuffix(" to run-1")
    assert temporary.startswith(".writing-run-1-")
    synced = (tmp_path.name, RUN_FILE, REQUESTS_FILE, TELEMETRY_FILE, LOG_FILE, temporary)
    assert (sorted(before), after) == (sorted(f"sync {name}" for name in synced), "sync job-1")
    assert folder == tmp_path / "job-1" / "run-1"
    assert sorted(path.name for path in (tmp_path / "job-1").iterdir()) == ["run-1"]


def test_several_bundles_are_renamed_only_when_all_are_synced(tmp_path: Path, steps: list[str]) -> None:
    targets = [tmp_path / "job" / name for name in ("a", "b")]
    write_atomically({target: lambda folder: (folder / RUN_FILE).touch() for target in targets})
    kinds = [step.split()[0] for step in steps]
    assert kinds == ["sync"] * 5 + ["rename", "sync"] * 2
    assert [target.is_dir() for target in targets] == [True, True]


def test_if_one_of_several_cannot_be_filled_none_is_there(tmp_path: Path) -> None:
    def broken(folder: Path) -> None:
        raise OSError(f"no room for {folder.name[:9]}")

    with pytest.raises(OSError, match=r"^no room for \.writing-$"):
        write_atomically({tmp_path / "job" / "a": lambda folder: (folder / RUN_FILE).touch(), tmp_path / "b": broken})
    assert [path for path in tmp_path.rglob("*") if path.name != "job"] == []


def test_a_bundle_that_is_there_already_stays_and_the_others_are_written(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    write_atomically({tmp_path / name: lambda folder: (folder / RUN_FILE).touch() for name in ("a", "b")})
    assert list((tmp_path / "a").iterdir()) == []
    assert (tmp_path / "b" / RUN_FILE).exists()


def test_a_run_that_another_worker_finished_first_is_left_unchanged(tmp_path: Path) -> None:
    final = tmp_path / "job" / "run"

    def overtaken(folder: Path) -> None:
        (folder / RUN_FILE).write_text("late")
        final.mkdir()
        (final / RUN_FILE).write_text("first")

    write_atomically({final: overtaken})
    assert (final / RUN_FILE).read_text() == "first"
    assert [path.name for path in final.parent.iterdir()] == ["run"]


def test_a_rename_that_fails_is_an_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, target: Path) -> Path:
        raise PermissionError(f"no entry for {target.name}")

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(PermissionError, match="no entry for run-1"):
        write_run(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["job-1"]


def test_a_full_disk_leaves_nothing_and_space_lets_it_be_written(tmp_path: Path) -> None:
    """A limit on file sizes stands in for the full disk: the kernel refuses the write half way, as it does there."""
    log = tmp_path / "engine.log"
    log.write_bytes(b"x" * 2**18)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_bundle(tmp_path / "bundles", run_record(), (request(),), (), log)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list((tmp_path / "bundles").rglob("*")) == [tmp_path / "bundles" / "job-1"]
    folder = write_bundle(tmp_path / "bundles", run_record(), (request(),), (), log)
    assert (folder / LOG_FILE).read_bytes() == log.read_bytes()


def test_bundles_are_found_in_order_without_half_written_ones(tmp_path: Path) -> None:
    for job_id, run_id in (("b", "1"), ("a", "2"), ("a", "1")):
        write_run(tmp_path, job_id=job_id, run_id=run_id)
    half = tmp_path / "a" / ".writing-3-0badcafe"
    half.mkdir()
    (half / RUN_FILE).touch()
    (tmp_path / "a" / "no run").mkdir()
    assert list(find_bundles(tmp_path)) == [tmp_path / "a" / "1", tmp_path / "a" / "2", tmp_path / "b" / "1"]


def test_only_what_a_worker_left_a_day_ago_is_removed(tmp_path: Path) -> None:
    left, now = tmp_path / "job-1" / ".writing-3-0badcafe", tmp_path / "job-1" / ".writing-4-0badcafe"
    for folder in (left, now):
        folder.mkdir(parents=True)
        (folder / RUN_FILE).touch()
    yesterday = time.time() - 25 * 3600
    os.utime(left, (yesterday, yesterday))
    write_run(tmp_path)
    assert sorted(path.name for path in (tmp_path / "job-1").iterdir()) == [now.name, "run-1"]


def test_files_are_utf8_and_the_record_is_readable_text(tmp_path: Path) -> None:
    folder = write_run(tmp_path, study_name="Größe")
    text = (folder / RUN_FILE).read_bytes().decode("utf-8")
    assert '\n "study_name": "Größe",\n' in text
    assert text.endswith("}\n")
    assert read_run(folder).study_name == "Größe"
    assert read_log(folder, run_record()) is None


@pytest.mark.parametrize("name", [RUN_FILE, REQUESTS_FILE, TELEMETRY_FILE])
def test_a_missing_file_is_named_with_its_folder(tmp_path: Path, name: str) -> None:
    folder = write_run(tmp_path)
    (folder / name).unlink()
    with pytest.raises(BundleError) as caught:
        read_bundle(folder)
    assert str(caught.value).startswith(f"{folder / name} cannot be read: ")
    assert len(str(caught.value)) > len(f"{folder / name} cannot be read: None")


def test_a_missing_log_and_a_format_never_released_read_as_sentences(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    (folder / LOG_FILE).unlink()
    with pytest.raises(BundleError) as caught:
        read_log(folder, run_record())
    assert str(caught.value).startswith(f"{folder / LOG_FILE} cannot be read: [Errno 2] No such file")
    record = (
        (folder / RUN_FILE).read_text().replace(f'"format_version": {BUNDLE_FORMAT_VERSION}', '"format_version": 12')
    )
    (folder / RUN_FILE).write_text(record)
    with pytest.raises(BundleError) as caught:
        read_run(folder)
    assert str(caught.value) == (
        f"{folder} has bundle format 12; this Drafthouse reads 13, 14, 15, 16: with the Drafthouse that wrote it, "
        "export the study to a .json file, which can be imported here"
    )
