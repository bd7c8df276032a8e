"""A home with reference prompts and the reference model's tokenizer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from host.settings import Settings
from jobs.datasets.tokenizer import TargetTokenizer, target_tokenizer
from tests.jobs.datasets.rows import write_rows
from tests.migrated import copy_migrated

TOKENIZER = Path(__file__).parents[3] / "models" / "target" / "tokenizer.json"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Two reference categories of four prompts each; the target `reference` has a tokenizer."""
    settings = Settings(home=tmp_path / "home")
    copy_migrated(settings.home)
    for category in ("code", "prose"):
        rows = [{"prompt": f"{category} {i}", "category": category, "source": "a book"} for i in range(4)]
        write_rows(settings.models_dir / "prompts" / f"{category}.jsonl", rows)
    folder = settings.models_dir / "target"
    folder.mkdir()
    shutil.copy(TOKENIZER, folder)
    return settings


@pytest.fixture(scope="session")
def tokenizer() -> TargetTokenizer:
    return target_tokenizer(Settings().models_dir, str(TOKENIZER.parent))
