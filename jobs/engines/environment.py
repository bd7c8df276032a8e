"""The environment an engine runs in: ours without what is ours alone, and what its profile sets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from jobs.engines.hardware import nvidia_gpus, processors
from jobs.engines.models import local_folder
from jobs.engines.profiles import Profile
from lab.errors import SettingsError
from lab.study import Arm, Study
from warehouse.settings import ENVIRONMENT_PREFIX, Settings

_SECRET = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|(?:API_?|ACCESS_?|PRIVATE_?)KEY)(?:_|$)", re.IGNORECASE
)
#: The variable that marks every process of an engine started here.
MARK = "ENGINE_OF_DRAFTHOUSE"
HIDDEN = "(not stored)"
#: Settings of our own Python that would break another one's, and addresses with passwords in them.
_NOT_FOR_ENGINES = ("PYTHON", "VIRTUAL_ENV", "CELERY", ENVIRONMENT_PREFIX)


def profile_environment(settings: Settings, profile: Profile, study: Study, arm: Arm) -> dict[str, str]:
    """What the profile sets on this host, filled in, and the arm over it; stored with every run (see `told`)."""
    here = profile_environment_here(settings, profile)
    return here | ({"HF_HUB_OFFLINE": "1"} if _all_local(settings, study, arm) else {}) | arm.environment


def profile_environment_here(settings: Settings, profile: Profile) -> dict[str, str]:
    """What the profile sets on this host whatever is served, filled in."""
    texts = profile.environment | ({} if nvidia_gpus() else profile.cpu_environment)
    return {name: fill_in(settings, text) for name, text in texts.items()}


def told(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment as it may be stored and shown: what is secret by its name (HF_TOKEN) without its value."""
    return {name: HIDDEN if is_secret(name) else value for name, value in environment.items()}


def is_secret(variable: str) -> bool:
    """Whether an environment variable holds a secret, going by its name."""
    return _SECRET.search(variable) is not None


def whole_environment(settings: Settings, profile: Profile, own: Mapping[str, str]) -> dict[str, str]:
    """Everything the engine's process sees; its own programs first on the path (it compiles with some of them)."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_ENGINES)}
    if program := profile.program(settings):
        inherited["PATH"] = os.pathsep.join((str(program.parent), inherited.get("PATH", os.defpath)))
    return inherited | dict(own)


def fill_in(settings: Settings, text: str) -> str:
    """`text` of a profile with its {placeholders}. Raises SettingsError for one there is not."""
    mine = processors()
    cores = mine[1:] or mine  # the measuring client keeps the first
    values = {
        "engines": str(settings.engines_dir.absolute()),
        "engine_cores": ",".join(map(str, cores)),
        "engine_threads": str(len(cores)),
        "home": str(settings.home.absolute()),
        "models": str(settings.models_dir.absolute()),
    }
    try:
        return text.format(**values)
    except (KeyError, IndexError, ValueError):
        known = ", ".join(f"{{{name}}}" for name in values)
        raise SettingsError(f"{settings.engines_file}: {text!r} cannot be filled in: there are {known}") from None


def command_words(settings: Settings, profile: Profile, own: Mapping[str, str]) -> tuple[str, ...]:
    """The profile's command filled in. A word that is {pass_environment} becomes `-e NAME` for every variable of the
    engine, which is how a container's client is told to hand them on.
    """
    words: list[str] = []
    for word in profile.command:
        if word == "{pass_environment}":
            words += [part for name in (*sorted(own), MARK) for part in ("-e", name)]
        else:
            words.append(fill_in(settings, word))
    return tuple(words)


def _all_local(settings: Settings, study: Study, arm: Arm) -> bool:
    """Whether the engine needs no model hub: then it shall not wait for one either."""
    names = [study.target, arm.speculation.model if arm.speculation else None]
    return all(local_folder(settings, name) is not None for name in names if name is not None)
