"""The environment an engine runs in: ours without what is ours alone, and what its profile sets."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lab.errors import SettingsError
from lab.study import Arm, Study
from warehouse.settings import ENVIRONMENT_PREFIX, Settings
from workers.engines.hardware import nvidia_gpus, processors
from workers.engines.models import local_folder
from workers.engines.profiles import Profile

#: Settings of our own Python that would break another one's, and addresses with passwords in them.
_NOT_FOR_ENGINES = ("PYTHON", "VIRTUAL_ENV", "CELERY", ENVIRONMENT_PREFIX)


def profile_environment(settings: Settings, profile: Profile, study: Study, arm: Arm) -> dict[str, str]:
    """What the profile sets on this host, filled in; stored with every run."""
    texts = profile.environment | ({} if nvidia_gpus() else profile.cpu_environment)
    filled = {name: fill_in(settings, text) for name, text in texts.items()}
    return filled | ({"HF_HUB_OFFLINE": "1"} if _all_local(settings, study, arm) else {})


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
    }
    try:
        return text.format(**values)
    except (KeyError, IndexError, ValueError):
        known = ", ".join(f"{{{name}}}" for name in values)
        raise SettingsError(f"{settings.engines_file}: {text!r} cannot be filled in: there are {known}") from None


def _all_local(settings: Settings, study: Study, arm: Arm) -> bool:
    """Whether the engine needs no model hub: then it shall not wait for one either."""
    names = [study.target, arm.speculation.model if arm.speculation else None]
    return all(local_folder(settings, name) is not None for name in names if name is not None)
