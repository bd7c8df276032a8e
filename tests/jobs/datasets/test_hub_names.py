"""A target by hub name: its tokenizer comes from this host's hub cache, or an error says how to get it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.jobs.datasets.conftest import TOKENIZER

REVISION = "0" * 40
COUNT = """
from lab.errors import UserError
from host.settings import Settings
from jobs.datasets.tokenizer import target_tokenizer
try:
    print(target_tokenizer(Settings().models_dir, "owner/model").count(["Hello world"]))
except UserError as refused:
    print(refused)
"""


def counted(hub: Path) -> str:
    """In a process of its own, because the hub's library reads its environment once. It must not ask the network."""
    environment = {**os.environ, "HF_HOME": str(hub), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, "-c", COUNT], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_tokenizer_of_a_hub_name_is_read_from_this_hosts_cache(tmp_path: Path) -> None:
    cached = tmp_path / "hub" / "models--owner--model"
    (cached / "snapshots" / REVISION).mkdir(parents=True)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(REVISION)
    shutil.copy(TOKENIZER, cached / "snapshots" / REVISION)
    assert counted(tmp_path) == "[6]"


def test_an_uncached_hub_name_says_how_to_get_its_tokenizer(tmp_path: Path) -> None:
    sentence = counted(tmp_path)
    assert "the tokenizer of owner/model is not in this host's hub cache and cannot be fetched" in sentence
    assert "run `hf download owner/model tokenizer.json` here" in sentence
