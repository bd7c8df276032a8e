"""vLLM: its command line, its metrics, and the configuration in its log. Requests are in `workers.load`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pydantic import JsonValue

from jobs.engines.flags import configured, merged, negatable
from jobs.engines.kind import COMMON_OWN, LISTENS, SPECULATION, Kind, Metrics
from jobs.engines.models import model_path
from jobs.engines.speculation.vllm import OPTIONS, conflicts
from lab.study import Arm, FlagValue, Speculation, Study

_CONFIG = re.compile(r"Initializing a V\d LLM engine \((?P<version>[^)]*)\) with config: (?P<config>.*)")
_ARGUMENTS = re.compile(r"non-default args: (?P<arguments>\{.*\})")
_OPENING, _CLOSING = "([{<", ")]}>"
METRICS = Metrics(
    counters={
        "prompt_tokens": "vllm:prompt_tokens_total",
        "generation_tokens": "vllm:generation_tokens_total",
        "num_drafts": "vllm:spec_decode_num_drafts_total",
        "num_draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
        "num_accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
        "prefix_cache_queries": "vllm:prefix_cache_queries_total",
        "prefix_cache_hits": "vllm:prefix_cache_hits_total",
        "num_preemptions": "vllm:num_preemptions_total",
    },
    gauges={
        "requests_running": "vllm:num_requests_running",
        "requests_waiting": "vllm:num_requests_waiting",
        "kv_cache_usage": "vllm:kv_cache_usage_perc",
    },
    accepted_per_position="vllm:spec_decode_num_accepted_tokens_per_pos_total",
    formerly={  # renamed in 0.9.2
        "vllm:prefix_cache_queries_total": "vllm:gpu_prefix_cache_queries_total",
        "vllm:prefix_cache_hits_total": "vllm:gpu_prefix_cache_hits_total",
        "vllm:kv_cache_usage_perc": "vllm:gpu_cache_usage_perc",
    },
    added={"prefix_cache_hits": "vllm:external_prefix_cache_hits_total"},  # of a KV connector: memory, disk, others
)
RESET_TIERS = "/reset_prefix_cache?reset_external=true"


def arguments(
    models_dir: Path, study: Study, arm: Arm, port: int, _folder: Path, *, takes: Callable[[str], bool]
) -> tuple[str, ...]:
    """Return the words after `vllm serve` for this arm. Flags, which come later, override the arm's configuration.

    vLLM splits the values of its own file (`--config`) into words, which may be flags, so it gets no file. `takes`
    returns whether this engine has a flag that no study set.
    """
    return (
        model_path(models_dir, study.target),
        *negatable(configured(arm)),
        *("--host", "127.0.0.1", "--port", str(port), f"--served-model-name={study.target}"),
        *negatable((_own_sampling(arm) if takes("generation-config") else {}) | merged(study, arm)),
        *(() if arm.speculation is None else _speculation(models_dir, arm.speculation, takes)),
    )


def _own_sampling(arm: Arm) -> dict[str, FlagValue]:
    """Return a flag to ignore the model's generation_config, which would fill in missing parameters (top_k, a penalty,
    ...) without the study knowing.
    """
    return {} if "generation-config" in configured(arm) else {"generation-config": "vllm"}


def _speculation(models_dir: Path, speculation: Speculation, takes: Callable[[str], bool]) -> tuple[str, ...]:
    """Return the flags of speculation, and for per-request figures, which vLLM refuses without speculation."""
    config = json.dumps(speculative_config(models_dir, speculation))
    of_requests = ("--per-request-spec-decode-metrics", "detailed") if takes("per-request-spec-decode-metrics") else ()
    return ("--speculative-config", config, *of_requests)


def speculative_config(models_dir: Path, speculation: Speculation) -> dict[str, JsonValue]:
    """Return the value of --speculative-config, in which `options` are keys like the others and override them."""
    config = speculation.model_dump(exclude_none=True, exclude={"options"}) | speculation.options
    if speculation.model is not None:
        config["model"] = model_path(models_dir, speculation.model)
    return config


def effective_config(log: Path) -> dict[str, str]:
    """Return the configuration that vLLM logs, and the arguments it was given as `non_default_args`."""
    config: dict[str, str] = {}
    with log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if match := _ARGUMENTS.search(line):
                config.setdefault("non_default_args", match["arguments"])
            if match := _CONFIG.search(line):
                pairs = (part.partition("=") for part in split(match["config"]))
                return config | {name.strip(): value.strip() for name, equals, value in pairs if equals}
    return config


def other_model(target: str, arm: Arm, config: Mapping[str, str]) -> str | None:
    """Return why vLLM serves another model than the target, whose own files name one (a draft in the format of
    `speculators` names the model that it drafts for, and vLLM serves that, with this draft, whatever was asked).
    """
    served, drafting = config.get("model", ""), config.get("speculative_config", "None")
    is_swapped = f"model={target!r}" in drafting and served != repr(target)
    if not is_swapped and (arm.speculation is not None or drafting == "None"):
        return None
    return (
        f"vLLM serves {served} with {drafting} instead of {target!r}, because the files of {target!r} say so: it is a "
        "draft. Make it the model of an arm's speculation, and the model that it is for the target"
    )


def split(text: str) -> Iterator[str]:
    """Split at the commas outside brackets and quotes."""
    depth, quote, start = 0, "", 0
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        else:
            depth += (character in _OPENING) - (character in _CLOSING)
            if character == "," and depth == 0:
                yield text[start:index]
                start = index + 1
    yield text[start:]


KIND = Kind(
    name="vllm",
    started_as="`vllm serve MODEL`",
    counted_on="`/metrics`, and in each answer",
    arguments=arguments,
    metrics=(METRICS,),
    effective_config=effective_config,
    other_model=other_model,
    probe=Path(__file__).parents[1] / "probe_scripts" / "vllm_answers.py",
    own_flags={
        **COMMON_OWN,
        "uds": LISTENS,
        "speculative-config": SPECULATION,
        "per-request-spec-decode-metrics": "it is always on with speculation",
    },
    options=OPTIONS,
    conflicts=conflicts,
    lookup_bounds=("prompt_lookup_min", "prompt_lookup_max"),
    gpu_flags=(("tensor-parallel-size",), ("pipeline-parallel-size",), ("data-parallel-size",)),
    reset_path="/reset_prefix_cache",
    reset_tiers_path=RESET_TIERS,
    token_ids=True,
)
