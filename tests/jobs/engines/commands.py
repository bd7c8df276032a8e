"""The words that an engine of each kind is started with, as text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from host.settings import Settings
from jobs.engines.kinds import KINDS
from tests.lab.studies import study
from tests.workers.engine_runtime.stand_ins import PLAIN


def words_of(
    kind: str, folder: Path, arm: dict[str, Any], takes: Callable[[str], bool] = lambda _: True, **changes: Any
) -> list[str]:
    """Return the words for a study of this arm alone; `takes` says which flags the engine has."""
    built = study(arms=[PLAIN | arm], **changes)
    words = KINDS[kind].arguments
    assert words is not None
    return list(words(Settings(home=folder).models_dir, built, built.arms[0], 8000, folder / "launch", takes=takes))
