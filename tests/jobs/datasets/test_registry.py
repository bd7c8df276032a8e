"""Registered files: checked as a whole, stored with their SHA-256, replaced atomically."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from jobs.datasets import registry
from jobs.datasets.listing import add_dataset, dataset_digest, list_datasets
from jobs.datasets.loader import check_workload, load_prompts
from jobs.datasets.registry import remove
from lab.errors import UserError
from lab.study import Workload
from tests import processes
from tests.actors import ADMIN
from tests.jobs.datasets.rows import write_rows


def own_file(folder: Path, count: int = 3) -> Path:
    return Path(write_rows(folder / "own.jsonl", [{"prompt": f"p{n}", "category": "x"} for n in range(count)]))


def test_a_registered_file_is_used_by_its_name_without_the_original(settings: Settings, tmp_path: Path) -> None:
    file = own_file(tmp_path)
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    state = add_dataset(settings, "mine", file, actor=ADMIN)
    file.unlink()
    assert (state.state, state.sha256, state.original_name) == ("registered", sha256, "own.jsonl")
    assert {prompt.text for prompt in load_prompts(settings, Workload(dataset="mine"), 3, seed=0)} == {"p0", "p1", "p2"}
    assert dataset_digest(settings, Workload(dataset="mine")) == sha256
    with pytest.raises(UserError, match="dataset mine has 3 prompts"):
        check_workload(settings, Workload(dataset="mine"), 4)
    with pytest.raises(UserError, match="no category 'y'; its categories are x"):
        check_workload(settings, Workload(dataset="mine", category="y"), 1)


def test_listing_the_datasets_again_reads_no_file_that_has_not_changed(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, reads, opens = list_datasets(settings), [], Path.open
    assert sum(state.stock is not None for state in first) > 8  # some of them in several files

    def opened(path: Path, mode: str = "r", **others: Any) -> Any:
        if mode == "rb":
            reads.append(path.name)
        return opens(path, mode, **others)

    monkeypatch.setattr(Path, "open", opened)
    assert list_datasets(settings) == first
    assert reads == []
    write_rows(settings.models_dir / "prompts" / "code.jsonl", [{"prompt": "new", "category": "code"}])
    assert list_datasets(settings) != first
    assert reads == ["code.jsonl"]


def test_another_file_takes_a_registered_name_only_if_it_is_to_replace(settings: Settings, tmp_path: Path) -> None:
    first = add_dataset(settings, "mine", own_file(tmp_path), actor=ADMIN)
    assert add_dataset(settings, "mine", own_file(tmp_path), actor=ADMIN).sha256 == first.sha256
    with pytest.raises(UserError, match=r"mine is registered already, as another file \(.* with 3 rows\)"):
        add_dataset(settings, "mine", own_file(tmp_path, 5), actor=ADMIN)
    check_workload(settings, Workload(dataset="mine"), 3)
    assert len(list((settings.datasets / "files").iterdir())) == 1


def test_registering_again_replaces_and_a_wrong_file_changes_nothing(settings: Settings, tmp_path: Path) -> None:
    add_dataset(settings, "mine", own_file(tmp_path), actor=ADMIN)
    with pytest.raises(UserError, match="line 2"):
        add_dataset(
            settings,
            "mine",
            Path(write_rows(tmp_path / "bad.jsonl", [{"prompt": "a"}, {"prompt": ""}])),
            actor=ADMIN,
        )
    assert len(load_prompts(settings, Workload(dataset="mine"), 3, seed=0)) == 3
    add_dataset(settings, "mine", own_file(tmp_path, 5), actor=ADMIN, replace=True)
    check_workload(settings, Workload(dataset="mine"), 5)
    assert len(list((settings.datasets / "files").iterdir())) == 1


def test_two_names_may_share_a_file_and_the_last_one_removes_it(settings: Settings, tmp_path: Path) -> None:
    for name in ("one", "two"):
        add_dataset(settings, name, own_file(tmp_path), actor=ADMIN)
    remove(settings.datasets, "one")
    check_workload(settings, Workload(dataset="two"), 3)
    load_prompts(settings, Workload(dataset="two"), 3, seed=0)
    remove(settings.datasets, "two")
    assert not list((settings.datasets / "files").iterdir())
    with pytest.raises(UserError, match="no dataset is registered as 'two'; registered are: none"):
        remove(settings.datasets, "two")


def test_a_file_that_was_changed_or_is_gone_is_refused(settings: Settings, tmp_path: Path) -> None:
    add_dataset(settings, "mine", own_file(tmp_path), actor=ADMIN)
    (copy,) = (settings.datasets / "files").iterdir()
    copy.write_text(json.dumps({"prompt": "another"}))
    with pytest.raises(UserError, match="is not the file that was registered as dataset mine"):
        load_prompts(settings, Workload(dataset="mine"), 1, seed=0)
    copy.unlink()
    with pytest.raises(UserError, match="the file of dataset mine is gone"):
        load_prompts(settings, Workload(dataset="mine"), 1, seed=0)


@pytest.mark.parametrize("name", ["random", "reference", "story", "sharegpt_sample", "custom"])
def test_a_name_of_drafthouses_own_cannot_be_taken(settings: Settings, tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="register the file under another name"):
        add_dataset(settings, name, own_file(tmp_path), actor=ADMIN)


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "a b", "x.jsonl"])
def test_a_name_that_is_no_name_is_refused(settings: Settings, tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match="is not a valid name for a dataset"):
        add_dataset(settings, name, own_file(tmp_path), actor=ADMIN)


def test_a_file_that_is_not_there_says_so(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file"):
        add_dataset(settings, "mine", tmp_path / "nowhere.jsonl", actor=ADMIN)
    with pytest.raises(UserError, match="cannot be read"):
        add_dataset(settings, "mine", tmp_path, actor=ADMIN)


def test_what_a_killed_registration_left_behind_is_removed_by_the_next(settings: Settings, tmp_path: Path) -> None:
    settings.datasets.mkdir(parents=True)
    (settings.datasets / ".incoming-file").write_text("half")
    (settings.datasets / ".incoming-entry").write_text("half")
    assert [entry.name for entry in registry.all_registered(settings.datasets)] == []
    add_dataset(settings, "mine", own_file(tmp_path), actor=ADMIN)
    assert not list(settings.datasets.glob(".incoming-*"))


def test_registrations_of_several_processes_do_not_disturb_each_other(settings: Settings, tmp_path: Path) -> None:
    file = own_file(tmp_path, 200)
    added = [
        processes.start(
            *("tests.jobs.datasets.adds_often", f"mine-{n % 2}", str(file)),
            environment=os.environ | {"DRAFTHOUSE_HOME": str(settings.home)},
            folder=tmp_path,
            output=tmp_path / "printed",
        )
        for n in range(3)
    ]
    assert [process.wait(600) for process in added] == [0, 0, 0], (tmp_path / "printed").read_text()
    for name in ("mine-0", "mine-1"):
        assert len(load_prompts(settings, Workload(dataset=name), 200, seed=0)) == 200


def test_the_list_has_every_datasets_source_and_state(settings: Settings, tmp_path: Path) -> None:
    add_dataset(settings, "mine", own_file(tmp_path), actor=ADMIN)
    states = {state.name: state for state in list_datasets(settings)}
    assert all(
        listed.what and listed.source and listed.licence and listed.how_to_get and listed.columns
        for listed in states.values()
    )
    assert {states[name].state for name in ("reference", "random_s", "story", "spec_bench_sample")} == {"built in"}
    assert {states[name].state for name in ("sharegpt", "burstgpt", "swe_bench")} == {"missing"}
    assert states["mine"].state == "registered"
    assert states["mine"].stock is not None
    assert states["mine"].stock.categories == {"x": 3}
    assert {name for name in states if states[name].synthetic} == {
        *("random", "random_s", "random_m", "random_l", "random_x", "prefix_repetition", "burstgpt", "burstgpt_sample"),
        "azure_llm",
    }
    assert not [state for state in list_datasets(Settings(home=tmp_path / "other")) if state.state == "registered"]
