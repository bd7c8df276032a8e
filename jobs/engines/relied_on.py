"""Lists the features of each engine that Drafthouse always uses, and since which version each engine has them.

`python -m jobs.engines.relied_on` writes the parts of docs/engines.md that follow from the code.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from jobs.engines.captures import numbers
from jobs.engines.captures.table import versions_table
from jobs.engines.kinds import KINDS
from lab.study.methods import METHODS

DOCUMENT = Path(__file__).parents[2] / "docs" / "engines.md"
#: The oldest version of each kind whose code was examined. An engine of unknown version is treated like it.
OLDEST = {"vllm": "0.8.5", "sglang": "0.4.1"}

What = Literal["flag", "request field", "answer field", "variable", "route", "metric", "log line", "module"]


@dataclass(frozen=True)
class Use:
    """A feature of an engine that Drafthouse uses without a study's request.

    `since` is the first version that has it, None if that was not tried. `needed` flags are passed to every version,
    because nothing replaces them. `matters`: for which arms its lack leaves results unknown; None for none.
    """

    what: What
    name: str
    since: str | None
    without: str
    needed: bool = False
    matters: Literal["always", "speculating", "connector"] | None = None

    @property
    def called(self) -> str:
        """Return its name with the first version that has it."""
        return f"{'--' * (self.what == 'flag')}{self.name}{'' if self.since is None else f' (since {self.since})'}"


_NO_START = "it cannot be started"
USES: Mapping[str, tuple[Use, ...]] = {
    "vllm": (
        Use("flag", "host", "0.8.5", _NO_START, needed=True),
        Use("flag", "port", "0.8.5", _NO_START, needed=True),
        Use("flag", "served-model-name", "0.8.5", _NO_START, needed=True),
        Use("flag", "speculative-config", "0.8.5", "an arm with speculation is refused", needed=True),
        Use(
            "flag",
            "generation-config",
            "0.8.5",
            "not passed: what a request leaves out (top_k, a penalty) is the engine's own",
        ),
        Use(
            "flag",
            "per-request-spec-decode-metrics",
            "0.29.0",
            "not passed: the acceptance of requests and categories is unknown",
            matters="speculating",
        ),
        Use("request field", "ignore_eos", "0.8.5", "answers end where the model ends them: `output_length`"),
        Use("request field", "stream_options.include_usage", "0.8.5", "requests fail: tokens cannot be counted"),
        Use(
            "request field",
            "stream_options.continuous_usage_stats",
            "0.8.5",
            "left out where it is refused; tokens of each chunk are unknown",
            matters="always",
        ),
        Use(
            "request field",
            "return_token_ids",
            "0.10.2",
            "ignored, or left out where it is refused; outputs are compared by their text",
            matters="always",
        ),
        Use("answer field", "metrics.speculative_decoding", "0.29.0", "the acceptance of each request is unknown"),
        Use("variable", "VLLM_SERVER_DEV_MODE", "0.8.5", "no `/reset_prefix_cache`"),
        Use("variable", "VLLM_NO_USAGE_STATS", "0.8.5", "ignored"),
        Use("variable", "VLLM_CPU_KVCACHE_SPACE", "0.8.5", "ignored"),
        Use("variable", "VLLM_CPU_OMP_THREADS_BIND", "0.8.5", "ignored"),
        Use("variable", "SPT_NOENV", "0.10.1", "not needed: processes keep their titles"),
        Use("variable", "HF_HUB_OFFLINE", "0.8.5", "local folders are looked up at the hub, too"),
        Use("module", "uvicorn.config", "0.8.5", "the engine requires no key: the worker's log says who can reach it"),
        Use("log line", "Initializing a V1 LLM engine (...) with config", "0.8.5", "`configuration_unknown`"),
        Use("log line", "non-default args", "0.9.0", "the arguments are those of the command"),
        Use("route", "/health", "0.8.5", "it is never ready"),
        Use("route", "/version", "0.8.5", "the version is that of the installed package"),
        Use("route", "/reset_prefix_cache", "0.8.5", "the cache stays warm: `warm_prefix_cache`"),
        Use(
            "route",
            "/reset_prefix_cache?reset_external=true",
            "0.13.0",
            "a KV connector's caches stay warm",
            matters="connector",
        ),
        Use("metric", "vllm:spec_decode_num_drafts_total", "0.8.5", "acceptance is unknown", matters="speculating"),
        Use(
            "metric",
            "vllm:spec_decode_num_accepted_tokens_total",
            "0.8.5",
            "acceptance is unknown",
            matters="speculating",
        ),
        Use(
            "metric",
            "vllm:spec_decode_num_accepted_tokens_per_pos_total",
            "0.8.5",
            "acceptance by position is unknown",
            matters="speculating",
        ),
        Use(
            "metric",
            "vllm:prefix_cache_queries_total",
            "0.9.2",
            "`vllm:gpu_prefix_cache_queries_total` is read, in 0.8.5 in blocks instead of tokens",
        ),
        Use(
            "metric",
            "vllm:prefix_cache_hits_total",
            "0.9.2",
            "`vllm:gpu_prefix_cache_hits_total` is read, in 0.8.5 in blocks instead of tokens",
        ),
        Use(
            "metric",
            "vllm:external_prefix_cache_hits_total",
            "0.12.0",
            "hits of a KV connector are not counted",
            matters="connector",
        ),
        Use("metric", "vllm:kv_cache_usage_perc", "0.9.2", "`vllm:gpu_cache_usage_perc` is read"),
        Use("metric", "vllm:num_preemptions_total", "0.8.5", "preemptions are unknown"),
    ),
    "sglang": (
        Use("flag", "model-path", "0.4.1", _NO_START, needed=True),
        Use("flag", "host", "0.4.1", _NO_START, needed=True),
        Use("flag", "port", "0.4.1", _NO_START, needed=True),
        Use("flag", "served-model-name", "0.4.1", _NO_START, needed=True),
        Use("flag", "speculative-algorithm", "0.4.2", "an arm with speculation does not start", needed=True),
        Use("flag", "enable-metrics", "0.4.1", "not passed: all counters are unknown"),
        Use(
            "request field",
            "return_spec_tokens_details",
            "0.5.19",
            "ignored; accepted tokens are unknown",
            matters="speculating",
        ),
        Use(
            "request field",
            "stream_options.continuous_usage_stats",
            "0.5.5",
            "ignored, or left out where it is refused; tokens of each chunk are unknown",
            matters="always",
        ),
        Use("answer field", "sglext.spec_tokens_details", "0.5.19", "accepted tokens are unknown"),
        Use("module", "uvicorn.config", "0.4.1", "the engine requires no key: the worker's log says who can reach it"),
        Use("log line", "server_args=ServerArgs(...)", "0.4.1", "`configuration_unknown`"),
        Use("route", "/health", "0.4.1", "it is never ready"),
        Use("route", "/flush_cache", "0.4.1", "the cache stays warm: `warm_prefix_cache`"),
        Use("route", "/server_info", "0.5.6", "`/get_server_info` is read instead"),
        Use(
            "metric",
            "sglang:spec_verify_calls_total",
            "0.5.13",
            "rounds of the whole run are unknown",
            matters="speculating",
        ),
        Use("metric", "sglang:cached_tokens_total", "0.4.4", "hits of the prefix cache are unknown", matters="always"),
        Use("metric", "sglang:num_retracted_requests_total", "0.5.8", "preemptions are unknown", matters="always"),
    ),
    "tensorrt_llm": (
        Use("flag", "host", None, _NO_START, needed=True),
        Use("flag", "port", None, _NO_START, needed=True),
        Use("flag", "extra_llm_api_options", None, _NO_START, needed=True),
        Use("flag", "backend", None, _NO_START, needed=True),
        Use("module", "uvicorn.config", None, "the engine requires no key: the worker's log says who can reach it"),
        Use("route", "/v1/models", None, "it is not measured: the name it serves is unknown"),
        Use("route", "/prometheus/metrics", None, "all counters are unknown"),
        Use("metric", "trtllm_spec_decode_accepted_tokens_total", None, "acceptance is unknown"),
    ),
    "endpoint": (
        Use("request field", "ignore_eos", None, "set `ignore_eos = false` in the workload"),
        Use(
            "request field",
            "stream_options.continuous_usage_stats",
            None,
            "left out where it is refused; tokens of each chunk are unknown",
        ),
        Use("request field", "max_tokens", None, "sent as `max_completion_tokens`"),
        Use(
            "answer field",
            "usage.prompt_tokens_details.cached_tokens",
            None,
            "hits of the prefix cache come from the counters alone",
        ),
        Use("route", "/metrics", None, "all counters are unknown"),
        Use("route", "/reset_prefix_cache", None, "the cache stays warm: `warm_prefix_cache`"),
        Use("route", "/version", None, "the version is unknown"),
    ),
}


def flags_of(kind: str) -> dict[str, Use]:
    """Return the flags that Drafthouse passes to this kind of engine by itself."""
    return {use.name: use for use in USES.get(kind, ()) if use.what == "flag"}


def takes(kind: str, flag: str, flags: Collection[str] | None, version: str | None) -> bool:
    """Return whether a flag that no study set may be passed to an engine: by the engine's own list of `flags`,
    or else by its version. If neither is known, it is treated like the oldest one.
    """
    use = flags_of(kind).get(flag)
    return use is None or use.needed or is_in(use, kind, flags, version)


def is_in(use: Use, kind: str, flags: Collection[str] | None, version: str | None) -> bool:
    """Return whether an engine has what Drafthouse uses, as `takes` does of flags."""
    if use.what == "flag" and flags is not None:
        return use.name in flags
    return use.since is None or _release(version, kind) >= numbers(use.since)


def _release(version: str | None, kind: str) -> tuple[int, ...]:
    """Return the numbers of a version such as 0.14.1, v0.12.0 or 0.32.0+cpu; those of the oldest where it has none."""
    return numbers(version or "") or numbers(OLDEST.get(kind, "0"))


def updated(document: str) -> str:
    """Return docs/engines.md with its generated parts renewed. Raises ValueError if their marks are missing."""
    parts = {
        "kinds": _kinds_table(),
        "methods": _methods_table(),
        "versions": versions_table(),
        "relied on": _uses_list(),
    }
    for name, text in parts.items():
        document = _with_table(document, name, text)
    return document


def _kinds_table() -> str:
    rows = ["| `kind` | started as | counters | empties its prefix cache |", "|---|---|---|---|"]
    for kind in KINDS.values():
        reset = f"`{kind.reset_path}`" if kind.reset_path else "-"
        rows.append(f"| `{kind.name}` | {kind.started_as} | {kind.counted_on} | {reset} |")
    return "\n".join(rows)


def _methods_table() -> str:
    kinds = [name for name, kind in KINDS.items() if kind.methods]
    rows = [
        f"| `method` | what it is called | draft model | {' | '.join(f'`{kind}`' for kind in kinds)} |",
        "|" + "---|" * (3 + len(kinds)),
    ]
    for method in METHODS.values():
        names = " | ".join(f"`{method.engines[kind]}`" if kind in method.engines else "-" for kind in kinds)
        rows.append(f"| `{method.name}` | {method.label} | {method.draft_model} | {names} |")
    return "\n".join(rows)


def _uses_list() -> str:
    """List what some version lacks, and what running servers may lack."""
    lines = []
    for kind, uses in USES.items():
        lacking = [use for use in uses if kind == "endpoint" or use.since not in (None, OLDEST.get(kind))]
        if lacking:
            lines.append(f"\n`{kind}`{f' (examined from {OLDEST[kind]} on)' if kind in OLDEST else ''}:\n")
        alike: dict[tuple[str, str, str], list[str]] = {}
        for use in lacking:
            name = f"`{'--' * (use.what == 'flag')}{use.name}`"
            alike.setdefault((use.what, _since(kind, use), use.without), []).append(name)
        lines += [f"- {what} {', '.join(names)}{since}: {without}" for (what, since, without), names in alike.items()]
    return "\n".join(lines).strip()


def _since(kind: str, use: Use) -> str:
    return "" if use.since in (None, OLDEST.get(kind)) else f" (since {use.since})"


def _with_table(document: str, name: str, table: str) -> str:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, _, rest = document.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"docs/engines.md has no {begin} and {end}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
