"""What is known of models by their names: draft models that fit a target, and what a study of it should heed.

Everything here is a suggestion. Whether a study can run is checked when it is submitted and when its engines start.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.engines.hardware import memory_gb
from jobs.engines.models import is_unanswered
from lab.study import Study

_FILE = Path(__file__).with_name("draft_models.toml")
#: A model's parameters, in billions, as its name has them: `Llama-3.3-70B`, `gpt-oss-120b`, but not `17B-16E` of a
#: mixture of experts, where the number is one expert's.
_PARAMETERS = re.compile(r"(?<![\d.A-Za-z])(\d+(?:\.\d+)?)b(?![A-Za-z0-9])(?!-\d+e\b)", re.IGNORECASE)
#: The least that weights take: four bits a parameter.
_LEAST_GB_PER_BILLION = 0.5


@dataclass(frozen=True)
class KnownDraft:
    """A draft model that `source` names for a target."""

    method: str
    model: str
    source: str
    note: str = ""

    @property
    def label(self) -> str:
        return f"{self.model} ({self.note})" if self.note else self.model


@functools.cache
def _drafts() -> dict[str, tuple[KnownDraft, ...]]:
    found: dict[str, tuple[KnownDraft, ...]] = {}
    rows: list[dict[str, Any]] = tomllib.loads(_FILE.read_text("utf-8"))["draft"]
    for row in rows:
        drafts = [KnownDraft(row["method"], model, row["source"], row.get("note", "")) for model in row["models"]]
        target = row["target"].lower()
        found[target] = (*found.get(target, ()), *drafts)
    return found


def known_drafts(target: str) -> tuple[KnownDraft, ...]:
    """Return the draft models that are known for the target: a hub name, or a folder that is called like its model."""
    name = target.rstrip("/").lower()
    return _drafts().get(name) or next(
        (drafts for hub_name, drafts in _drafts().items() if hub_name.partition("/")[2] == name.rpartition("/")[2]), ()
    )


def advice(study: Study) -> list[str]:
    """Return sentences about the study's target that are no reason to refuse it."""
    return list(_advice(study))


def _advice(study: Study) -> Iterator[str]:
    drafts = (arm.speculation.model for arm in study.arms if arm.speculation is not None)
    if unknown := [name for name in dict.fromkeys((study.target, *drafts)) if name is not None and is_unanswered(name)]:
        yield f"The model hub does not answer, so nobody has checked that it has {' and '.join(unknown)}."
    model = study.target.rstrip("/").rpartition("/")[2]
    if model.lower().startswith("gpt-oss") and study.endpoint != "chat":
        yield (
            f"{model} is trained on its own chat format, and its draft models too: set the endpoint to chat, or its "
            "acceptance says little about a service."
        )
    if study.hardware is not None:  # this host's memory says nothing about that of the named one
        return
    has_gb, is_gpu = memory_gb()
    if (numbers := _PARAMETERS.findall(model)) and has_gb is not None and any(arm.server is None for arm in study.arms):
        needs_gb = float(numbers[0]) * _LEAST_GB_PER_BILLION
        if needs_gb > has_gb:
            where = "this host's GPUs have" if is_gpu else "this host has"
            yield (
                f"{model} takes at least {needs_gb:.0f} GB of memory, even at 4 bits a parameter, and {where} "
                f"{has_gb:.0f} GB: measure it on a larger host, or take a smaller target."
            )
