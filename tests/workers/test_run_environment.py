"""The commit of a hub model, from the cache in the engine's environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from host.settings import Settings
from workers.run_environment import hub_revision

COMMIT, OTHER = "a1" * 20, "b2" * 20


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    model = tmp_path / "hub" / "models--owner--name"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text(COMMIT)
    (model / "refs" / "v1").write_text("no commit")
    for commit in (COMMIT, OTHER):
        (model / "snapshots" / commit).mkdir(parents=True)
        (model / "snapshots" / commit / "config.json").write_text("{}")
    return tmp_path / "hub"


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME"])
def test_the_commit_of_main_is_found_wherever_the_environment_keeps_the_cache(cache: Path, variable: str) -> None:
    place = cache.parent if variable == "HF_HOME" else cache
    assert hub_revision(Settings().models_dir, "owner/name", {variable: str(place)}) == COMMIT


@pytest.mark.parametrize(
    ("revision", "expected"), [(None, COMMIT), ("main", COMMIT), (OTHER, OTHER), ("c3" * 20, None)]
)
def test_a_revision_that_was_asked_for_is_the_one_looked_up(
    cache: Path, revision: object, expected: str | None
) -> None:
    assert hub_revision(Settings().models_dir, "owner/name", {"HF_HUB_CACHE": str(cache)}, revision) == expected


def test_what_the_cache_does_not_say_is_unknown(cache: Path) -> None:
    environment = {"HF_HUB_CACHE": str(cache)}
    assert hub_revision(Settings().models_dir, "owner/other", environment) is None
    assert hub_revision(Settings().models_dir, "owner/name", environment, "v1") is None
    assert hub_revision(Settings().models_dir, "owner/name", {"XDG_CACHE_HOME": str(cache)}) is None
    assert hub_revision(Settings().models_dir, "owner/name", None) is None
    assert hub_revision(Settings().models_dir, "no hub name", environment) is None


def test_a_folder_has_no_revision(cache: Path) -> None:
    assert hub_revision(Settings().models_dir, str(cache), {"HF_HUB_CACHE": str(cache)}) is None
    assert hub_revision(Settings().models_dir, "reference", {"HF_HUB_CACHE": str(cache)}) is None
