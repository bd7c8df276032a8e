"""SGLang: its command line, and the configuration in its log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from jobs.engines.flags import Flags, configured, dashed, merged, switches
from jobs.engines.models import model_path
from jobs.engines.vllm import split
from lab.study import Arm, FlagValue, Speculation, Study

#: Our methods -> --speculative-algorithm.
ALGORITHMS = {
    "draft_model": "STANDALONE",
    "eagle": "EAGLE",
    "eagle3": "EAGLE3",
    "mtp": "NEXTN",
    "dflash": "DFLASH",
    "dspark": "DSPARK",
    "ngram": "NGRAM",
}
_ARGUMENTS = re.compile(r"server_args=ServerArgs\((?P<arguments>.*)\)\s*$")


def arguments(
    models_dir: Path, study: Study, arm: Arm, port: int, _folder: Path, *, takes: Callable[[str], bool]
) -> tuple[str, ...]:
    """Return the words after `python -m sglang.launch_server` for this arm. Flags, which come later, override the arm's
    configuration. (SGLang splits a file of its own into words, as vLLM does.) `takes` says whether this engine has a
    flag that no study asked for.
    """
    return (
        *("--model-path", model_path(models_dir, study.target)),
        *switches(configured(arm)),
        *("--host", "127.0.0.1", "--port", str(port), f"--served-model-name={study.target}"),
        *(("--enable-metrics",) if takes("enable-metrics") else ()),
        *switches(merged(study, arm)),
        *(() if arm.speculation is None else switches(_speculation(models_dir, arm.speculation))),
    )


def _speculation(models_dir: Path, speculation: Speculation) -> Flags:
    """Draft a chain and not a tree, so that the same number of tokens means the same work in every engine.

    SGLang counts the verified token among its draft tokens. `options` override: eagle_topk, num_draft_tokens, ...; a
    list or table goes on the command line as JSON.
    """
    drafted = speculation.num_speculative_tokens
    flags: dict[str, FlagValue] = {"algorithm": ALGORITHMS[speculation.method], "num-draft-tokens": drafted + 1}
    if speculation.method != "ngram":
        flags |= {"num-steps": drafted, "eagle-topk": 1}
    if speculation.model is not None:
        flags["draft-model-path"] = model_path(models_dir, speculation.model)
    options: dict[str, FlagValue] = {
        dashed(name): value if isinstance(value, FlagValue) else json.dumps(value)
        for name, value in speculation.options.items()
    }
    return {f"speculative-{name}": value for name, value in (flags | options).items()}


def effective_config(log: Path) -> dict[str, str]:
    """Return the arguments that SGLang logs at its start, defaults included."""
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if match := _ARGUMENTS.search(line):
                pairs = (part.partition("=") for part in split(match["arguments"]))
                return {name.strip(): value.strip() for name, equals, value in pairs if equals}
    return {}
