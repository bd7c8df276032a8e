"""TensorRT-LLM: the command line of `trtllm-serve` and the YAML file beside it."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from pydantic import JsonValue

from jobs.engines.flags import CONFIG_FILE, config_file, merged, switches, underscored
from jobs.engines.models import model_path
from lab.study import Arm, Speculation, Study

#: Our methods -> decoding_type. Older releases have no type Eagle3, and in later ones `Eagle` is an alias of it.
DECODING_TYPES = {
    "draft_model": "DraftTarget",
    "eagle3": "Eagle",
    "mtp": "MTP",
    "dflash": "DFlash",
    "ngram": "NGram",
    "suffix": "SA",
}
#: Methods that the overlapping scheduler does not support.
_WITHOUT_OVERLAP = ("draft_model", "ngram")


def arguments(models_dir: Path, study: Study, arm: Arm, port: int, folder: Path, **_: object) -> tuple[str, ...]:
    """Return the words after `trtllm-serve` for this arm; its YAML file holds the arm's config and the speculation."""
    flags = {underscored(name): value for name, value in merged(study, arm).items()}
    path = config_file(folder, _config(models_dir, arm))
    return (
        model_path(models_dir, study.target),
        *("--host", "127.0.0.1", "--port", str(port), "--extra_llm_api_options", str(path)),
        *switches({"backend": "pytorch", **flags}),
    )


def _config(models_dir: Path, arm: Arm) -> dict[str, JsonValue]:
    """Without return_perf_metrics the server would not count tokens."""
    config: dict[str, JsonValue] = {"return_perf_metrics": True}
    if arm.speculation is None:
        return config | arm.config
    if arm.speculation.method in _WITHOUT_OVERLAP:
        config["disable_overlap_scheduler"] = True
    return config | arm.config | {"speculative_config": _speculation(models_dir, arm.speculation)}


def effective_config(log: Path) -> dict[str, str]:
    """Return its YAML file, which lies beside the log: the log has no configuration in a form to rely on."""
    config = yaml.safe_load((log.with_suffix("") / CONFIG_FILE).read_text(encoding="utf-8"))
    return {name: json.dumps(value) for name, value in config.items()}


def _speculation(models_dir: Path, speculation: Speculation) -> dict[str, JsonValue]:
    drafted = speculation.num_speculative_tokens
    config: dict[str, JsonValue] = {
        "decoding_type": DECODING_TYPES[speculation.method],
        "max_draft_len": drafted,
    }
    if speculation.model is not None:
        config["speculative_model_dir"] = model_path(models_dir, speculation.model)
    if speculation.method == "mtp":
        config["num_nextn_predict_layers"] = drafted
    if speculation.prompt_lookup_max is not None:
        config["max_matching_ngram_size"] = speculation.prompt_lookup_max
    return config | dict(speculation.options)
