"""Checks that the engine ran as intended: sampling, capture sizes, and what else speculation changed."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from lab.validity.check import Answer, Check, Fired, Missing
from lab.validity.evidence import Evidence
from lab.validity.words import listed

#: Above this share of preempted requests, the KV cache was too small for the load.
PREEMPTED_SHARE = 0.05
#: Sent with every request, so that an engine's or a model's own value never applies.
SENT = frozenset({"temperature", "top_p", "seed", "max_tokens", "max_new_tokens"})
#: Parameters without effect in greedy sampling.
ONLY_WITH_TEMPERATURE = frozenset({"top_k", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"})
_DEFAULTS = re.compile(
    r"(?:sampling parameters have been overridden by|Using default \w+ sampling params from) .*?(?P<found>\{.*\})"
)
_CHANGED = re.compile(
    r"max_num_scheduled_tokens is set to \d+ based on the speculative decoding settings|"
    r"[Aa]sync scheduling (?:is )?not supported with [^.\n]{0,60}speculative decoding|"
    r"[Oo]verlap schedul\w+ is disabled because of [^.\n]{0,80}"
)
_CAPTURED_TOKENS = re.compile(r"'max_cudagraph_capture_size': (\d+)")
_NO_GRAPHS = re.compile(r"'cudagraph_mode': <CUDAGraphMode\.NONE")
_MAX_SEQS = re.compile(r"'max_num_seqs': (\d+)")


def _sampling(evidence: Evidence) -> Answer:
    if evidence.engine_log is None:
        return Missing("the engine's log, which says whether the model's own sampling parameters apply")
    match = _DEFAULTS.search(evidence.engine_log)
    ignored = SENT | (ONLY_WITH_TEMPERATURE if evidence.run.sampling.temperature == 0 else frozenset())
    applied = {name: value for name, value in _read(match).items() if name not in ignored}
    if not applied:
        return None
    shown = ", ".join(f"{name} {value}" for name, value in sorted(applied.items()))
    return Fired(f"The model's generation_config applied to every request, as far as requests do not set it: {shown}.")


def _read(match: re.Match[str] | None) -> Mapping[str, object]:
    """Return the parameters in the line; empty if it has none that can be parsed."""
    try:
        defaults = ast.literal_eval(match["found"]) if match else {}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    return defaults if isinstance(defaults, dict) and all(isinstance(name, str) for name in defaults) else {}


def _capture_sizes(evidence: Evidence) -> Answer:
    config = evidence.run.circumstances.effective_config
    graphs, captured_requests = config.get("compilation_config"), config.get("cuda_graph_max_bs", "")
    if graphs is not None:
        if _NO_GRAPHS.search(graphs) or (captured := _CAPTURED_TOKENS.search(graphs)) is None:
            return None
        limit, needed, unit = int(captured[1]), _streams(evidence) * (1 + evidence.drafted_a_round), "tokens a step"
    elif captured_requests.isdigit():
        if config.get("disable_cuda_graph") == "True":
            return None
        limit, needed, unit = int(captured_requests), _streams(evidence), "requests a step"
    else:
        return Missing("the sizes that the engine captured graphs for")
    if needed <= limit:
        return None
    return Fired(
        f"Graphs were captured for up to {limit} {unit}, and {_streams(evidence)} streams of 1 + "
        f"{evidence.drafted_a_round} tokens need {needed}: larger steps ran without a graph."
    )


def _streams(evidence: Evidence) -> int:
    """Return the most requests in a step: the load's concurrency, or the engine's limit if that is lower."""
    match = _MAX_SEQS.search(evidence.run.circumstances.effective_config.get("non_default_args", ""))
    streams = evidence.run.load.max_concurrency
    return min(streams, int(match[1])) if match else streams


def _changed_by_speculation(evidence: Evidence) -> Answer:
    if evidence.run.arm.speculation is None:
        return None
    if evidence.engine_log is None:
        return Missing("the engine's log")
    changes = list(dict.fromkeys(match.group().strip() for match in _CHANGED.finditer(evidence.engine_log)))
    return Fired(f"Speculation changed other settings too: {listed(changes)}.") if changes else None


def _preemptions(evidence: Evidence) -> Answer:
    preempted = evidence.grown("num_preemptions")
    if preempted is None:
        return Missing("the server's count of preempted requests")
    if preempted <= PREEMPTED_SHARE * len(evidence.sent):
        return None
    return Fired(
        f"The engine preempted requests {preempted:.0f} times because the KV cache was full, with {len(evidence.sent)} "
        "requests: their work was done twice."
    )


_CONFIG = "circumstances.effective_config"
_CONFIG_UNKNOWN = "The engine's effective configuration is unknown, so it cannot be seen what else speculation changed."
CHECKS = (
    Check(
        name="sampling_overridden",
        traps=(4,),
        severity="warning",
        looks_at=("log", "sampling"),
        threshold="any sampling parameter of the model's generation_config that requests do not send (they send "
        "temperature, top_p, seed and length). At temperature 0 those that only restrict the choice do not "
        "count",
        why="Parameters that nobody sent, such as a repetition penalty, change the text and so acceptance.",
        advice='Set the engine flag generation-config = "vllm" for every arm (SGLang: sampling-defaults = "openai").',
        rule=_sampling,
    ),
    Check(
        name="capture_sizes_too_small",
        traps=(14,),
        severity="warning",
        looks_at=(_CONFIG, "load.max_concurrency", "arm.speculation"),
        threshold="min(streams, max_num_seqs) x (1 + k) tokens exceed the largest captured size (SGLang counts "
        "requests, not tokens)",
        why="Steps larger than any captured graph run without one: 25 instead of 133 tok/s in one report.",
        advice="Raise max_cudagraph_capture_size to max_num_seqs x (1 + k), or lower max-num-seqs.",
        rule=_capture_sizes,
    ),
    Check(
        name="configuration_unknown",
        traps=(15,),
        severity="note",
        looks_at=(_CONFIG,),
        threshold="no effective configuration was logged",
        why="Flags alone do not show the settings that an engine derived from them.",
        advice="Start the engine through Drafthouse, which reads it from the log.",
        rule=lambda evidence: None if evidence.run.circumstances.effective_config else Fired(_CONFIG_UNKNOWN),
    ),
    Check(
        name="settings_changed_by_speculation",
        traps=(15,),
        severity="note",
        looks_at=("log", "arm.speculation"),
        threshold="any log line that reports it",
        why="A smaller token budget or a disabled scheduler is a price of speculation as served, not of speculation "
        "as such.",
        advice="To compare at equal settings, set them for the baseline too (max-num-batched-tokens, "
        "async-scheduling).",
        rule=_changed_by_speculation,
    ),
    Check(
        name="preemptions",
        traps=(15,),
        severity="warning",
        looks_at=("counters_before", "counters_after"),
        threshold=f"more than {PREEMPTED_SHARE:g} preemptions per request",
        why="A draft model takes memory from the target's cache: the arms then differ in memory, not only in "
        "speculation.",
        advice="Lower the concurrency or max_model_len, or give the KV cache more memory.",
        rule=_preemptions,
    ),
)
