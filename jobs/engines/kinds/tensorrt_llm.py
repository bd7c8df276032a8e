"""TensorRT-LLM: the command line of `trtllm-serve`, the YAML file beside it, and its metrics."""

from __future__ import annotations

import json
from pathlib import Path

import yaml
from pydantic import JsonValue

from jobs.engines.flags import CONFIG_FILE, config_file, merged, switches, underscored
from jobs.engines.kind import COMMON_OWN, CONFIG, SPECULATION, TARGET, Kind, Metrics
from jobs.engines.models import model_path
from jobs.engines.speculation.tensorrt_llm import OPTIONS
from lab.study import Arm, Speculation, Study
from lab.study.methods import METHODS

#: Methods that the overlapping scheduler does not support.
_WITHOUT_OVERLAP = ("draft_model", "ngram")
METRICS = Metrics(
    counters={
        "prompt_tokens": "trtllm_prompt_tokens_total",
        "generation_tokens": "trtllm_generation_tokens_total",
        "prefix_cache_queries": "trtllm_prompt_tokens_total",
        "prefix_cache_hits": "trtllm_prompt_cached_tokens_total",
    },
    gauges={
        "requests_running": "trtllm_num_requests_running",
        "requests_waiting": "trtllm_num_requests_waiting",
        "kv_cache_usage": "trtllm_kv_cache_utilization",
    },
    path="/prometheus/metrics",
    position_label="token_position",
    accepted_per_position="trtllm_spec_decode_accepted_tokens_total",
    drafted_per_position="trtllm_spec_decode_drafted_tokens_total",
)


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
    """Return the YAML file's settings; without return_perf_metrics the server would not count tokens."""
    config: dict[str, JsonValue] = {"return_perf_metrics": True}
    if arm.speculation is None:
        return config | arm.config
    if arm.speculation.method in _WITHOUT_OVERLAP:
        config["disable_overlap_scheduler"] = True
    return config | arm.config | {"speculative_config": _speculation(models_dir, arm.speculation)}


def effective_config(log: Path) -> dict[str, str]:
    """Return the YAML file in the log's folder: the log itself has no reliable form of the configuration."""
    config = yaml.safe_load((log.with_suffix("") / CONFIG_FILE).read_text(encoding="utf-8"))
    return {name: json.dumps(value) for name, value in config.items()}


def _speculation(models_dir: Path, speculation: Speculation) -> dict[str, JsonValue]:
    drafted = speculation.num_speculative_tokens
    config: dict[str, JsonValue] = {
        "decoding_type": METHODS[speculation.method].engines["tensorrt_llm"],
        "max_draft_len": drafted,
    }
    if speculation.model is not None:
        config["speculative_model_dir"] = model_path(models_dir, speculation.model)
    if speculation.method == "mtp":
        config["num_nextn_predict_layers"] = drafted
    if speculation.prompt_lookup_max is not None:
        config["max_matching_ngram_size"] = speculation.prompt_lookup_max
    return config | dict(speculation.options)


def _remembers(speculation: Speculation) -> bool:
    method, options = speculation.method, speculation.options
    pooled = method == "ngram" and options.get("is_public_pool") is not False
    return pooled or (method == "suffix" and options.get("enable_global_pool") is True)


KIND = Kind(
    name="tensorrt_llm",
    started_as="`trtllm-serve MODEL`",
    counted_on="`/prometheus/metrics`",
    arguments=arguments,
    metrics=(METRICS,),
    effective_config=effective_config,
    own_flags={**COMMON_OWN, "extra-llm-api-options": CONFIG},
    config_own={"speculative-config": SPECULATION, "model": TARGET},
    options=OPTIONS,
    lookup_bounds=("prompt_lookup_max",),
    remembers=_remembers,
    forgets="is_public_pool = false",
    gpu_flags=(("tp-size", "tensor-parallel-size"), ("pp-size", "pipeline-parallel-size")),
    takes_model_name=False,
)
