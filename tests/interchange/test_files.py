"""A large file is read in pieces and several times, and is the same file each time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.settings import Settings
from interchange import files, store
from interchange.files import ForeignFile, read_paths
from interchange.reading import ReadRuns
from interchange.store import import_paths
from lab.errors import ForeignFileError
from tests.actors import ADMIN
from tests.interchange.sample_files import DETAILED

_CHANGED = "it changed while it was imported: import it again"


@pytest.fixture(autouse=True)
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is a large one."""
    monkeypatch.setattr(files, "LARGE_BYTES", 0)


@given(content=st.binary(max_size=100), length=st.integers(1, 30), looks_first=st.booleans())
def test_every_reading_gives_the_content_and_its_digest(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, length: int, *, looks_first: bool
) -> None:
    path = tmp_path_factory.mktemp("read") / "file"
    path.write_bytes(content)
    for file in (*read_paths([path]), ForeignFile(path.as_posix(), content)):
        if looks_first:
            assert file.source.sha256 == hashlib.sha256(content).hexdigest()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "_PIECE_BYTES", length)
            pieces = list(file.pieces())
        assert b"".join(pieces) == file.whole() == content
        assert all(len(piece) <= length for piece in pieces)
        assert (file.source.sha256, file.size_bytes) == (hashlib.sha256(content).hexdigest(), len(content))


def _replace(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"e", b"f"))


def _append(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


def _shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("change", [_replace, _append, _shorten])
def test_a_file_that_changed_is_not_read_on(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(DETAILED.read_bytes())
    (file,) = read_paths([path])
    file.whole()
    change(path)
    with pytest.raises(ForeignFileError, match=_CHANGED):
        file.whole()


def test_a_file_that_grew_before_it_was_read_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"{}")
    (file,) = read_paths([path])
    _append(path)
    with pytest.raises(ForeignFileError, match=_CHANGED):
        file.whole()


@pytest.mark.parametrize("change", [_replace, _append, _shorten, Path.unlink])
def test_nothing_is_imported_of_a_file_that_changed_before_it_was_stored(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(DETAILED.read_bytes())
    storable = store._storable

    def changed_meanwhile(read: ReadRuns) -> ReadRuns:
        change(path)
        return storable(read)

    monkeypatch.setattr(store, "_storable", changed_meanwhile)
    with pytest.raises(ForeignFileError, match="cannot be read: No such file" if change is Path.unlink else _CHANGED):
        import_paths(settings, [path], actor=ADMIN)
    assert not [left for left in settings.bundles.rglob("*") if left.is_file() or "writing" in left.name]
    monkeypatch.undo()
    path.write_bytes(DETAILED.read_bytes())
    assert len(import_paths(settings, [path], actor=ADMIN).new_run_ids) == 1


def test_a_large_file_in_a_folder_that_is_no_result_may_change(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "result.json").write_bytes(DETAILED.read_bytes())
    other = folder / "server.log"
    other.write_bytes(b"INFO started\n")
    found = read_paths([folder])
    _append(other)
    stored = store.import_read(settings, found, actor=ADMIN)
    assert (len(stored.new_run_ids), stored.skipped) == (1, (f"1 file (text): {other.as_posix()}",))
    sources = settings.bundles.glob("*/*/source/*")
    assert [source.read_bytes() for source in sources] == [DETAILED.read_bytes()]
