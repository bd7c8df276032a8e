"""transformers' assisted generation: the command line of our own server around it (transformers_server), and its log.

Import this module by its full name: in an engine's environment `transformers` is the library.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from jobs.engines.flags import Flags, merged, switches
from jobs.engines.kind import COMMON_OWN, SPECULATION, Kind
from jobs.engines.kinds import vllm
from jobs.engines.models import model_path
from lab.study import Arm, Speculation, Study

#: The server, a folder that Python can run.
SERVER = Path(__file__).parents[3] / "workers" / "transformers_server"
_CONFIG = re.compile(r"effective configuration: (?P<config>\{.*\})\s*$")


def arguments(models_dir: Path, study: Study, arm: Arm, port: int, _folder: Path, **_: object) -> tuple[str, ...]:
    """Return the words after `python` for this arm."""
    return (
        str(SERVER),
        *("--model", model_path(models_dir, study.target)),
        *("--host", "127.0.0.1", "--port", str(port), f"--served-model-name={study.target}"),
        *switches(merged(study, arm)),
        *(() if arm.speculation is None else switches(_speculation(models_dir, arm.speculation))),
    )


def _speculation(models_dir: Path, speculation: Speculation) -> Flags:
    drafted = {"num-speculative-tokens": speculation.num_speculative_tokens}
    if speculation.model is not None:
        return {"assistant-model": model_path(models_dir, speculation.model)} | drafted
    longest = speculation.prompt_lookup_max
    return {"prompt-lookup": True} | drafted | ({} if longest is None else {"max-matching-ngram-size": longest})


def effective_config(log: Path) -> dict[str, str]:
    """Return the device, data type, threads and versions that the server logs."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if match := _CONFIG.search(line):
                return {name: str(value) for name, value in ast.literal_eval(match["config"]).items()}
    return {}


_OWN = ("assistant-model", "prompt-lookup", "num-speculative-tokens", "max-matching-ngram-size")
KIND = Kind(
    name="transformers",
    started_as="our server around `generate(..., assistant_model=...)`",
    counted_on="`/metrics` under vLLM's names, and in each answer",
    arguments=arguments,
    metrics=(vllm.METRICS,),
    effective_config=effective_config,
    own_flags={**COMMON_OWN, **dict.fromkeys(_OWN, SPECULATION)},
    flags={"device": "value", "dtype": "value", "max-model-len": "integer"},
    takes_config=False,
    lookup_bounds=("prompt_lookup_max",),
)
