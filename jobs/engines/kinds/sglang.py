"""SGLang: its command line, its metrics, and the configuration in its log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from jobs.engines.flags import Flags, configured, dashed, merged, switches
from jobs.engines.kind import COMMON_OWN, LISTENS, SPECULATION, TARGET, Kind, Metrics
from jobs.engines.kinds.vllm import split
from jobs.engines.models import model_path
from jobs.engines.speculation.sglang import OPTIONS
from lab.study import Arm, FlagValue, Speculation, Study
from lab.study.methods import METHODS

_ARGUMENTS = re.compile(r"server_args=ServerArgs\((?P<arguments>.*)\)\s*$")
#: SGLang publishes acceptance as a gauge over its last batches, bonus token included: that has no difference over a
#: window, so accepted tokens are None here and come from each request (trap 9).
METRICS = Metrics(
    counters={
        "prompt_tokens": "sglang:prompt_tokens_total",
        "generation_tokens": "sglang:generation_tokens_total",
        "num_drafts": "sglang:spec_verify_calls_total",
        "prefix_cache_queries": "sglang:prompt_tokens_total",
        "prefix_cache_hits": "sglang:cached_tokens_total",
        "num_preemptions": "sglang:num_retracted_requests_total",
    },
    gauges={
        "requests_running": "sglang:num_running_reqs",
        "requests_waiting": "sglang:num_queue_reqs",
        "kv_cache_usage": "sglang:token_usage",
    },
    # each of these has a scheduler of its own; those of context parallelism and, if wanted, all others publish
    copies=("tp_rank", "pp_rank", "moe_ep_rank"),
)


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
    """Draft a chain, not a tree, so that the same number of tokens means the same work in every engine.

    SGLang counts the verified token among its draft tokens. `options` override: eagle_topk, num_draft_tokens, ...; a
    list or table goes on the command line as JSON.
    """
    drafted = speculation.num_speculative_tokens
    flags: dict[str, FlagValue] = {
        "algorithm": METHODS[speculation.method].engines["sglang"],
        "num-draft-tokens": drafted + 1,
    }
    if not METHODS[speculation.method].looks_up:
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


def _remembers(speculation: Speculation) -> bool:
    """Return whether drafts come from the n-gram cache of everything that the process has generated."""
    return speculation.method == "ngram" or speculation.options.get("adaptive") is True


KIND = Kind(
    name="sglang",
    started_as="`python -m sglang.launch_server`",
    counted_on="`/metrics`; accepted tokens only in each answer",
    arguments=arguments,
    metrics=(METRICS,),
    effective_config=effective_config,
    own_flags={
        **COMMON_OWN,
        "model-path": TARGET,
        "admin-api-key": LISTENS,
        "enable-metrics": "it is always on",
        "speculative-algorithm": SPECULATION,
        "speculative-draft-model-path": SPECULATION,
        "speculative-draft-model": SPECULATION,
    },
    options=OPTIONS,
    remembers=_remembers,
    gpu_flags=(("tp-size", "tp", "tensor-parallel-size"), ("pp-size", "pipeline-parallel-size", "pp")),
    version_paths=("/server_info", "/get_server_info"),
    reset_path="/flush_cache",
    further={"return_spec_tokens_details": True},
)
