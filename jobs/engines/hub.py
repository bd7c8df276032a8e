"""Whether the model hub has a model, asked by the model's name. What cannot be known is no error."""

from __future__ import annotations

import time

from lab.errors import UserError

_TIMEOUT_S = 3.0
#: An answer counts for so long, by name: time.monotonic, and whether the model is missing.
_REMEMBER_S = 60.0
_MOST_ANSWERS = 500
_answers: dict[str, tuple[float, bool]] = {}
#: A hub that did not answer is not asked again for so long, so that nobody waits for each name.
_LEAVE_ALONE_S = 300.0
_silent_until_s = 0.0


def check_hub_model(name: str) -> None:
    """Raise UserError if the hub answers that it has no such model, and this host's cache has none of its files.

    A hub that is offline, slow or away says nothing, nor does one that has the model but may refuse its files: then the
    engine reports it when it starts.
    """
    asked_s, missing = _answers.get(name, (-_REMEMBER_S, False))
    if time.monotonic() - asked_s >= _REMEMBER_S:
        missing = _is_missing(name)
        if len(_answers) >= _MOST_ANSWERS:
            _answers.clear()
        _answers[name] = time.monotonic(), missing
    if missing:
        raise UserError(
            f"the model hub has no model {name!r} that may be read from here: correct the name, set HF_TOKEN if it is "
            "private, or give a folder by a path that begins with / or ."
        )


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

    try:
        if isinstance(try_to_load_from_cache(name, "config.json"), str) or time.monotonic() < _silent_until_s:
            return False
        HfApi().model_info(name, timeout=_TIMEOUT_S)
    except GatedRepoError:  # it is there
        return False
    except (RepositoryNotFoundError, HFValidationError):
        return True
    except HfHubHTTPError:  # an answer that says nothing of the model
        return False
    except Exception:  # noqa: BLE001 - offline, no network, a proxy: the library names no common one
        _silent_until_s = time.monotonic() + _LEAVE_ALONE_S
    return False
