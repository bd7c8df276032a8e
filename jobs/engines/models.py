"""A study's model names and what an engine gets for them: a folder, or a hub name that the engine fetches itself."""

from __future__ import annotations

import re
from pathlib import Path

from lab.errors import UserError

#: The small models that come with Drafthouse, and their folders under `models` in the home.
REFERENCE_MODELS = {"reference": "target", "reference-draft": "draft", "reference-eagle3": "eagle3"}
#: owner/model, or a model without an owner; behind a colon which of its files (GGUF).
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(:\w+)?", re.ASCII)


def model_path(models_dir: Path, name: str) -> str:
    """Return the absolute folder of a reference model or of a local folder; a hub name unchanged.

    Raises UserError for a name that an engine would read as a flag.
    """
    if name.startswith("-"):
        raise UserError(f"{name!r} is not a model: a name that begins with - would be read as a flag")
    folder = local_folder(models_dir, name)
    return name if folder is None else str(folder)


def local_folder(models_dir: Path, name: str) -> Path | None:
    """Return the folder that a name means, whether it exists or not; None for a hub name.

    No file is looked at. A folder below the current one that is written like a hub name became absolute when its study
    was submitted.
    """
    if name in REFERENCE_MODELS:
        return (models_dir / REFERENCE_MODELS[name]).absolute()
    return expanded(name).absolute() if name.startswith((".", "/", "~")) else None


def expanded(name: str) -> Path:
    """Return the path with the home of its user; that of a user who does not exist stays as it is written."""
    path = Path(name)
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def check_model(models_dir: Path, name: str) -> None:
    """Raise UserError for a folder without a model. A hub name is not looked up here, but by `jobs.engines.hub`."""
    folder = local_folder(models_dir, name)
    if folder is None:
        if name.count("/") > 1:
            raise UserError(f"{name!r} is neither a folder here nor a hub name like owner/model")
        return
    if (folder / "config.json").is_file():
        return
    if name in REFERENCE_MODELS:
        raise UserError(f"the model {name!r} is not prepared yet ({folder} has no config.json): run `make models`")
    raise UserError(f"{folder} does not hold a model: it has no config.json")
