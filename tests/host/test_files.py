"""Files that are replaced whole."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from host.files import write_whole


@pytest.mark.parametrize("private", [False, True])
def test_files_with_names_alike_are_replaced_whole_by_threads_at_once(tmp_path: Path, *, private: bool) -> None:
    """Only what follows the last point of their names differs, as in versions."""
    files = [tmp_path / f"0.14.{number}" for number in range(4)]
    umask = os.umask(0)
    try:
        with ThreadPoolExecutor(8) as threads:
            written = [threads.submit(write_whole, file, file.name, private=private) for file in files * 50]
        for one in written:
            one.result()
    finally:
        os.umask(umask)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {file.name: file.name for file in files}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600 if private else 0o666}
