"""Which commit of a hub's model an engine loaded, as the cache in its environment tells."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from jobs.engines.models import local_folder
from warehouse.settings import Settings

_COMMIT = re.compile(r"[0-9a-f]{40}")


def hub_revision(
    settings: Settings, model: str, environment: Mapping[str, str] | None, asked: object = None
) -> str | None:
    """The commit of `asked` (a branch, a tag or a commit; main without one) of a hub name.

    None for a folder, and where the cache does not say: no engine came up, or its cache lies in a container.
    """
    if environment is None or local_folder(settings, model) is not None:
        return None
    folder = _hub_cache(environment) / f"models--{model.replace('/', '--')}"
    wanted = "main" if asked is None else str(asked)
    if _COMMIT.fullmatch(wanted):
        return wanted if (folder / "snapshots" / wanted).is_dir() else None
    try:
        commit = (folder / "refs" / wanted).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return commit if _COMMIT.fullmatch(commit) else None


def _hub_cache(environment: Mapping[str, str]) -> Path:
    """Where huggingface_hub keeps models, by the variables it looks at."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if told := environment.get(variable):
            return Path(told).expanduser()
    if home := environment.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    caches = environment.get("XDG_CACHE_HOME")
    return (Path(caches) if caches else Path("~/.cache")).expanduser() / "huggingface" / "hub"
