"""`drafthouse datasets`, as a person or a program types it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.homes import REPOSITORY, new_home

SAMPLE = REPOSITORY / "datasets" / "spec_bench_sample.jsonl"


def test_a_file_is_registered_listed_and_forgotten(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    listed = home.ask("datasets")
    assert "data/spec_bench/question.jsonl" in listed.stdout
    added = home.ask("datasets", "add", "spec_bench", str(SAMPLE))
    assert added.stdout.startswith("dataset spec_bench: 24 prompts, sha256 ")
    states = {state["name"]: state for state in json.loads(home.ask("datasets", "--json").stdout)}
    assert states["spec_bench"]["state"] == "registered"
    assert states["spec_bench"]["sha256"] in added.stdout
    assert states["spec_bench"]["stock"]["categories"]["multi_turn"] == 4
    assert home.ask("datasets", "remove", "spec_bench").returncode == 0
    again = home.ask("datasets", "remove", "spec_bench")
    assert (again.returncode, again.stderr) == (
        2,
        "drafthouse: no dataset is registered as 'spec_bench'; registered are: none\n",
    )


def test_a_wrong_file_is_one_sentence_and_exit_status_2(tmp_path: Path) -> None:
    file = tmp_path / "own.jsonl"
    file.write_text('{"prompt": "good"}\n{"text": "bad"}\n')
    refusal = new_home(tmp_path / "home").refusal("datasets", "add", "mine", str(file))
    assert refusal.startswith(f"drafthouse: {file}, line 2: the row has no prompt (nor messages, instruction, ")
    assert refusal.count("\n") == 1
