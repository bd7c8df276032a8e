"""New bundles are found without listing all folders, however late they appear."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from warehouse.ingest import new_bundles
from warehouse.ingest.new_bundles import NewBundles


@pytest.fixture(autouse=True)
def at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders are listed only when their times change, and never because it is their turn."""
    monkeypatch.setattr(new_bundles, "SETTLES_S", 0.0)
    monkeypatch.setattr(NewBundles, "_next_in_turn", lambda _: iter(()))


def add(root: Path, job: str, run: str) -> Path:
    folder = root / job / run
    folder.mkdir(parents=True)
    (folder / "run.json").touch()
    return folder


def names(folders: list[Path]) -> list[str]:
    return [f"{folder.parent.name}/{folder.name}" for folder in folders]


def nothing(_: str) -> bool:
    return False


def test_the_first_round_finds_all_that_is_new_and_complete(tmp_path: Path) -> None:
    for job, run in (("b", "1"), ("a", "2"), ("a", "1"), ("a", ".writing-3-0badcafe")):
        add(tmp_path, job, run)
    (tmp_path / "a" / "empty").mkdir()
    (tmp_path / "file").touch()
    assert names(NewBundles(tmp_path).find(lambda path: path == "a/1")) == ["a/2", "b/1"]


def test_a_folder_that_is_not_there_has_no_bundles_until_it_is(tmp_path: Path) -> None:
    bundles = NewBundles(tmp_path / "later")
    assert bundles.find(nothing) == []
    add(tmp_path / "later", "a", "1")
    assert names(bundles.find(nothing)) == ["a/1"]


def test_a_folder_is_listed_again_only_when_something_appeared_in_it(tmp_path: Path) -> None:
    for job in ("a", "b"):
        add(tmp_path, job, "1")
    bundles = NewBundles(tmp_path)
    assert len(bundles.find(nothing)) == 2
    assert bundles.find(nothing) == []
    add(tmp_path, "b", "2")
    add(tmp_path, "c", "1")
    assert names(bundles.find(nothing)) == ["b/1", "b/2", "c/1"]
    assert bundles.find(nothing) == []


def test_a_bundle_is_found_when_its_run_json_appears(tmp_path: Path) -> None:
    (tmp_path / "a" / "1").mkdir(parents=True)
    bundles = NewBundles(tmp_path)
    assert bundles.find(nothing) == bundles.find(nothing) == []
    (tmp_path / "a" / "1" / "run.json").touch()
    assert names(bundles.find(nothing)) == ["a/1"]
    assert bundles.find(nothing) == []


def test_of_many_jobs_the_last_and_running_ones_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_bundles, "_WATCHED", 1)
    for job in ("a", "b", "c"):
        add(tmp_path, job, "1")
    bundles = NewBundles(tmp_path)
    bundles.find(nothing)
    for job in ("a", "b"):
        add(tmp_path, job, "2")
    assert bundles.find(nothing) == []
    assert names(bundles.find(nothing, ["a", "not here yet"])) == ["a/1", "a/2"]
    assert names(bundles.find(nothing, all_jobs=True)) == ["b/1", "b/2"]
    add(tmp_path, "b", "3")
    assert len(bundles.find(nothing)) == 3  # it changed last


def test_what_appears_without_a_new_time_is_found_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a network's file system whose clock has coarse ticks, or which shows entries late."""

    def add_unseen(run: str) -> None:
        before = (tmp_path / "a").stat()
        add(tmp_path, "a", run)
        os.utime(tmp_path / "a", ns=(before.st_atime_ns, before.st_mtime_ns))

    add(tmp_path, "a", "1")
    bundles = NewBundles(tmp_path)
    bundles.find(nothing)
    add_unseen("2")
    assert bundles.find(nothing) == []
    monkeypatch.setattr(new_bundles, "SETTLES_S", 1000.0)
    assert len(bundles.find(nothing)) == 2
    monkeypatch.undo()
    monkeypatch.setattr(new_bundles, "SETTLES_S", 0.0)
    for job in ("b", "c"):
        add(tmp_path, job, "1")
    add_unseen("3")
    assert any("a/3" in names(bundles.find(nothing)) for _ in range(5))


def test_a_removed_job_is_found_again_when_it_is_back(tmp_path: Path) -> None:
    folder = add(tmp_path, "a", "1")
    bundles = NewBundles(tmp_path)
    bundles.find(nothing)
    aside = tmp_path.with_name("aside")
    folder.parent.rename(aside)
    assert bundles.find(nothing, ["a"], all_jobs=True) == []
    aside.rename(folder.parent)
    assert names(bundles.find(nothing)) == ["a/1"]
