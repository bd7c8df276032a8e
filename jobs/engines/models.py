"""Resolves a study's model names for an engine: to a folder, or a hub name that the engine fetches itself."""

from __future__ import annotations

import re
import time
from pathlib import Path

from lab.errors import INSTALL_COMMAND, UserError

#: The small models that come with Drafthouse, and their folders under `models` in the home.
REFERENCE_MODELS = {"reference": "target", "reference-draft": "draft", "reference-eagle3": "eagle3"}
#: owner/model, or a model without an owner; after a colon one of its files (GGUF).
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?(:\w+)?", re.ASCII)
_HUB_TIMEOUT_S = 3.0
#: How long the hub's response is cached, and the cache by name: time.monotonic, and whether the model is missing.
_REMEMBER_S = 60.0
_MOST_ANSWERS = 500
_answers: dict[str, tuple[float, bool]] = {}
#: Names about which the hub did not answer.
_unanswered: set[str] = set()
#: A silent hub gets no more requests for this long, so that nobody waits for every name.
_LEAVE_ALONE_S = 300.0
_silent_until_s = 0.0


def model_path(models_dir: Path, name: str) -> str:
    """Return the absolute folder of a reference model or of a local folder; a hub name unchanged.

    Raises UserError for a name that an engine would read as a flag.
    """
    if name.startswith("-"):
        raise UserError(f"{name!r} is not a model: a name that begins with - would be read as a flag")
    folder = local_folder(models_dir, name)
    return name if folder is None else str(folder)


def local_folder(models_dir: Path, name: str) -> Path | None:
    """Return the folder of a name, whether it exists or not; None for a hub name.

    No file is read. A folder below the current one that is written like a hub name became absolute when its study
    was submitted.
    """
    if name in REFERENCE_MODELS:
        return (models_dir / REFERENCE_MODELS[name]).absolute()
    return expanded(name).absolute() if name.startswith((".", "/", "~")) else None


def expanded(name: str) -> Path:
    """Expand `~` to the user's home; the path of a user who does not exist is unchanged."""
    path = Path(name)
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def check_model(models_dir: Path, name: str) -> None:
    """Raise UserError for a folder without a model. A hub name is for `check_hub_model`."""
    folder = local_folder(models_dir, name)
    if folder is None:
        if name.count("/") > 1:
            raise UserError(f"{name!r} is neither a folder here nor a hub name like owner/model")
        return
    if (folder / "config.json").is_file():
        return
    if name in REFERENCE_MODELS:
        raise UserError(
            f"the model {name!r} is not prepared yet ({folder} has no config.json): run `{INSTALL_COMMAND}`"
        )
    raise UserError(f"{folder} does not hold a model: it has no config.json")


def check_hub_model(name: str) -> None:
    """Raise UserError if the hub reports that the model is missing, and this host's cache has none of its files.

    An offline or slow hub is not a problem here, nor is a model whose files the hub may refuse: then the engine reports
    it when it starts.
    """
    asked_s, missing = _answers.get(name, (-_REMEMBER_S, False))
    if time.monotonic() - asked_s >= _REMEMBER_S:
        if len(_answers) >= _MOST_ANSWERS:
            _answers.clear()
            _unanswered.clear()
        missing = _is_missing(name)
        _answers[name] = time.monotonic(), missing
    if missing:
        raise UserError(
            f"the model hub has no model {name!r} that may be read from here: correct the name, set HF_TOKEN if it is "
            "private, or give a folder by a path that begins with / or ."
        )


def is_unanswered(name: str) -> bool:
    """Return whether the hub failed to answer for this model."""
    return name in _unanswered


def _is_missing(name: str) -> bool:
    global _silent_until_s  # noqa: PLW0603 - one hub for all callers of this process
    # Imported late: it takes a fifth of a second, and only hub names need it.
    from huggingface_hub import HfApi, try_to_load_from_cache  # noqa: PLC0415
    from huggingface_hub.errors import (  # noqa: PLC0415
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        RepositoryNotFoundError,
    )

    _unanswered.discard(name)
    try:
        if isinstance(try_to_load_from_cache(name, "config.json"), str):
            return False
        if time.monotonic() < _silent_until_s:
            _unanswered.add(name)
            return False
        HfApi().model_info(name, timeout=_HUB_TIMEOUT_S)
    except GatedRepoError:  # it is there
        return False
    except (RepositoryNotFoundError, HFValidationError):
        return True
    except HfHubHTTPError:  # a response that reveals nothing about the model
        _unanswered.add(name)
    except Exception:  # noqa: BLE001 - offline, no network, a proxy: the library names no common one
        _silent_until_s = time.monotonic() + _LEAVE_ALONE_S
        _unanswered.add(name)
    return False
