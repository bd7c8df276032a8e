"""Whatever is offered to readers elsewhere stays as it is; what nobody asks for costs nothing."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from host.settings import Settings
from lab.errors import UnknownNameError, UserError
from warehouse import snapshots as module
from warehouse.ingest.publication import Master
from warehouse.snapshots import Snapshots


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REST", 0)


def change(master: Master, number: int) -> None:
    master.connection.execute("INSERT INTO rejected_bundles VALUES ('job/run', ?, now())", [str(number)])
    master.publish()


def offered(settings: Settings, kept: int = 3) -> Snapshots:
    return Snapshots(settings.home, settings.warehouse_file, kept)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_snapshot_is_another_name_of_the_published_file(settings: Settings) -> None:
    snapshots = offered(settings)
    newest = snapshots.newest()
    assert newest.digest == newest.file.stem == sha256(settings.warehouse_file)
    assert newest.file.stat().st_ino == settings.warehouse_file.stat().st_ino
    assert newest.bytes == settings.warehouse_file.stat().st_size
    assert snapshots.newest() == snapshots.find(newest.digest) == newest
    assert [file.name for file in (settings.home / "snapshots").iterdir()] == [newest.file.name]


@pytest.mark.usefixtures("in_turns")
def test_what_is_offered_is_never_written_to_again(settings: Settings, master: Master) -> None:
    snapshots, held = offered(settings, kept=100), set()
    for number in range(12):
        change(master, number)
        if number % 3:
            held.add(snapshots.newest().digest)
        assert all(sha256(snapshots.find(digest).file) == digest for digest in held)
    assert len(held) == 8


@pytest.mark.usefixtures("in_turns")
def test_the_two_files_go_on_taking_turns_while_nobody_asks(settings: Settings, master: Master) -> None:
    inodes = []
    for number in range(6):
        change(master, number)
        inodes.append(settings.warehouse_file.stat().st_ino)
    assert len(set(inodes[1:])) == 2
    assert not (settings.home / "snapshots").exists()


def test_the_last_ones_stay_and_others_while_somebody_reads_them(
    settings: Settings, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots, made = offered(settings, kept=2), []
    for number in range(4):
        change(master, number)
        made.append(snapshots.newest().digest)
    assert [snapshots.find(digest).digest for digest in made] == made
    monkeypatch.setattr(module, "IN_USE_S", 0.0)
    change(master, 4)
    made.append(snapshots.newest().digest)
    for digest in made[:3]:
        with pytest.raises(UnknownNameError, match="/warehouse/latest redirects to the newest"):
            snapshots.find(digest)
    assert [snapshots.find(digest).digest for digest in made[3:]] == made[3:]


def test_the_disk_bounds_how_many_are_in_use_at_once(
    settings: Settings, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ALWAYS_BYTES", 0)
    change(master, 5)  # the first change may make the file a block smaller
    snapshots, made = offered(settings, kept=2), []
    for number in range(5):
        change(master, number)
        made.append(snapshots.newest().digest)
    assert made[2:] == [made[2]] * 3
    assert len(list((settings.home / "snapshots").iterdir())) == 3
    monkeypatch.setattr(module, "IN_USE_S", 0.0)
    assert snapshots.newest().digest == sha256(settings.warehouse_file)


def test_a_new_one_is_not_made_at_once_after_another(
    settings: Settings, master: Master, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "REST", 1e6)
    snapshots = offered(settings)
    first = snapshots.newest()
    change(master, 1)
    assert snapshots.newest() == first


def test_a_page_that_starts_anew_goes_on_with_what_there_is(settings: Settings, master: Master) -> None:
    older = offered(settings).newest()
    change(master, 1)
    newer = offered(settings).newest()
    (settings.home / "snapshots/.0badcafe").write_bytes(b"half")
    anew = offered(settings)
    assert anew.find(older.digest) == older
    assert anew.newest() == newer
    assert not (settings.home / "snapshots/.0badcafe").exists()


def test_no_other_file_can_be_asked_for(settings: Settings) -> None:
    snapshots = offered(settings)
    snapshots.newest()
    for name in ("../warehouse", "", "a" * 64, "latest"):
        with pytest.raises(UnknownNameError):
            snapshots.find(name)
    settings.warehouse_file.unlink()
    with pytest.raises(UserError, match="there is no warehouse in"):
        snapshots.newest()
