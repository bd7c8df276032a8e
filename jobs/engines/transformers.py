"""Assisted generation of transformers: the command line of our own server around it (transformers_server), and its log.

(The module is not called transformers, because what runs in the engine's environment imports that.)
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from jobs.engines.flags import Flags, merged, switches
from jobs.engines.models import model_path
from lab.study import Arm, Speculation, Study
from warehouse.settings import Settings

#: The server as a folder that Python can run, and what a study may set of it.
SERVER = Path(__file__).parents[2] / "workers" / "transformers_server"
FLAGS = ("device", "dtype", "max-model-len")
_CONFIG = re.compile(r"effective configuration: (?P<config>\{.*\})\s*$")


def arguments(settings: Settings, study: Study, arm: Arm, port: int, _folder: Path) -> tuple[str, ...]:
    """What stands behind `python` for this arm."""
    return (
        str(SERVER),
        *("--model", model_path(settings, study.target)),
        *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", study.target),
        *switches(merged(study, arm)),
        *(() if arm.speculation is None else switches(_speculation(settings, arm.speculation))),
    )


def _speculation(settings: Settings, speculation: Speculation) -> Flags:
    drafted = {"num-speculative-tokens": speculation.num_speculative_tokens}
    if speculation.model is not None:
        return {"assistant-model": model_path(settings, speculation.model)} | drafted
    longest = speculation.prompt_lookup_max
    return {"prompt-lookup": True} | drafted | ({} if longest is None else {"max-matching-ngram-size": longest})


def effective_config(log: Path) -> dict[str, str]:
    """What the server says is in use: device, data type, threads, versions."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if match := _CONFIG.search(line):
                return {name: str(value) for name, value in ast.literal_eval(match["config"]).items()}
    return {}
