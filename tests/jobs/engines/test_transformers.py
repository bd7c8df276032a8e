"""The command line of our server around transformers, and its log."""

from __future__ import annotations

from pathlib import Path

from jobs.engines.kinds.transformers import SERVER, effective_config
from tests.jobs.engines.commands import words_of


def of_arm(folder: Path, **arm: object) -> str:
    return " ".join(words_of("transformers", folder, arm, engine_flags={"dtype": "float32"}))


def test_a_draft_model_is_the_assistant(tmp_path: Path) -> None:
    draft = {"method": "draft_model", "model": "reference-draft", "num_speculative_tokens": 3}
    words = of_arm(tmp_path, speculation=draft)
    assert words.startswith(f"{SERVER} --model {tmp_path}/models/target --host 127.0.0.1 --port 8000")
    assert words.endswith(f"--dtype=float32 --assistant-model={tmp_path}/models/draft --num-speculative-tokens=3")


def test_ngram_is_prompt_lookup(tmp_path: Path) -> None:
    lookup = {"method": "ngram", "num_speculative_tokens": 4}
    assert of_arm(tmp_path, speculation=lookup).endswith("--prompt-lookup --num-speculative-tokens=4")
    words = of_arm(tmp_path, speculation=lookup | {"prompt_lookup_max": 3})
    assert words.endswith("--num-speculative-tokens=4 --max-matching-ngram-size=3")


def test_the_effective_configuration_is_what_it_logged(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("INFO x: effective configuration: {'device': 'cpu', 'threads': 1}\nINFO serving\n")
    assert effective_config(tmp_path / "log") == {"device": "cpu", "threads": "1"}
    (tmp_path / "log").write_text("error: the model cannot be loaded\n")
    assert effective_config(tmp_path / "log") == {}
