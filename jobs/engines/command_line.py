"""What an arm's speculation adds to its engine's command line, to be copied into a deployment."""

from __future__ import annotations

import json
import shlex

from host.settings import Settings
from jobs.engines import vllm
from jobs.engines.profiles import read_profiles
from lab.study import Arm


def speculation_words(settings: Settings, arm: Arm) -> str | None:
    """Return the words as a shell takes them, empty without speculation; None for engines other than vLLM."""
    profile = read_profiles(settings.engines_file).get(arm.engine)
    if profile is None or profile.kind != "vllm":
        return None
    if arm.speculation is None:
        return ""
    return shlex.join(
        ("--speculative-config", json.dumps(vllm.speculative_config(settings.models_dir, arm.speculation)))
    )
