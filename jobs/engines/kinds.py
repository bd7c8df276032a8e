"""The kinds of engines: what Drafthouse must know of each to start it, to send it requests and to read its metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from jobs.engines import metric_names, sglang, tensorrt_llm, transformers, vllm
from jobs.engines.metric_names import Metrics
from lab.study import Arm, Study
from lab.study.arm import METHODS


class Arguments(Protocol):
    """Returns what follows the command of an engine's profile; may write a file into the folder. `takes(flag)` says
    whether this version of the engine has a flag that no study asked for.
    """

    def __call__(
        self, models_dir: Path, study: Study, arm: Arm, port: int, folder: Path, /, *, takes: Callable[[str], bool]
    ) -> tuple[str, ...]: ...


#: What a flag takes: one of its choices, or a switch, integer, number, size (8192 or 8k) or any other single value.
FlagType = Literal["switch", "integer", "number", "size", "value"] | tuple[str, ...]

_LISTENS = "the engine listens on 127.0.0.1 alone"
_SPECULATION = "set speculation in the arm"
_TARGET = "set target in the study"
_SECRET = "a study is stored and shown to others: set the engine's own variable in the worker's engines.toml"  # noqa: S105 - a sentence
_COMMON_OWN = {
    "model": _TARGET,
    "host": _LISTENS,
    "port": "Drafthouse picks a free port",
    "served-model-name": "it is the target's name",
    "api-key": _LISTENS,
    "hf-token": _SECRET,
    "config": "write the settings into the arm's config, so that they are stored with the results",
}


@dataclass(frozen=True)
class Kind:
    """One kind of engine.

    `methods` maps our methods to the engine's own names. `own_flags` are flags that Drafthouse
    sets, each with what to set in the study instead. `flags` lists all flags; None if only the engine knows them.
    """

    name: str
    arguments: Arguments | None  # None: it is already running
    methods: Mapping[str, str]
    effective_config: Callable[[Path], dict[str, str]] = lambda _log: {}
    metrics: tuple[Metrics, ...] = (metric_names.VLLM,)
    own_flags: Mapping[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] | None = None
    flag_types: Mapping[str, FlagType] = field(default_factory=dict)  # as far as they are known without asking it
    no_forms: bool = False  # false becomes --no-flag instead of leaving the flag out
    takes_config: bool = True  # reads Arm.config, from words like flags or from a YAML file
    config_own: Mapping[str, str] = field(default_factory=dict)  # keys of that file that Drafthouse sets
    takes_options: bool = True  # accepts further options of speculation
    takes_schedule: bool = False  # among them numbers of drafted tokens by the number of requests at once
    lookup_bounds: tuple[str, ...] = ("prompt_lookup_min", "prompt_lookup_max")  # the bounds it has
    gpu_flags: tuple[tuple[str, ...], ...] = ()  # their product is the number of GPUs; synonyms in a tuple
    version_paths: tuple[str, ...] = ("/version",)
    reset_path: str | None = None  # request that empties the prefix cache
    takes_model_name: bool = True  # serves under the given name, else under the one at /v1/models
    further: Mapping[str, bool] = field(default_factory=dict)  # keys of each request under speculation
    per_request_speculation: bool = False  # each answer may report its accepted tokens
    token_ids: bool = False  # each answer may report its token ids; older versions ignore the option

    @property
    def is_started(self) -> bool:
        """Whether Drafthouse starts it as a process."""
        return self.arguments is not None


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="vllm",
            arguments=vllm.arguments,
            effective_config=vllm.effective_config,
            methods={name: name for name in METHODS},
            own_flags=_COMMON_OWN
            | {
                "uds": _LISTENS,
                "speculative-config": _SPECULATION,
                "per-request-spec-decode-metrics": "it is always on with speculation",
            },
            no_forms=True,
            takes_schedule=True,
            gpu_flags=(("tensor-parallel-size",), ("pipeline-parallel-size",), ("data-parallel-size",)),
            reset_path="/reset_prefix_cache",
            per_request_speculation=True,
            token_ids=True,
        ),
        Kind(
            name="sglang",
            arguments=sglang.arguments,
            effective_config=sglang.effective_config,
            methods=sglang.ALGORITHMS,
            metrics=(metric_names.SGLANG,),
            own_flags=_COMMON_OWN
            | {
                "model-path": _TARGET,
                "admin-api-key": _LISTENS,
                "enable-metrics": "it is always on",
                "speculative-algorithm": _SPECULATION,
                "speculative-draft-model-path": _SPECULATION,
                "speculative-draft-model": _SPECULATION,
            },
            lookup_bounds=(),
            gpu_flags=(("tp-size", "tp", "tensor-parallel-size"), ("pp-size", "pipeline-parallel-size", "pp")),
            version_paths=("/server_info", "/get_server_info"),
            reset_path="/flush_cache",
            further={"return_spec_tokens_details": True},
            per_request_speculation=True,
        ),
        Kind(
            name="tensorrt_llm",
            arguments=tensorrt_llm.arguments,
            effective_config=tensorrt_llm.effective_config,
            methods=tensorrt_llm.DECODING_TYPES,
            metrics=(metric_names.TENSORRT_LLM,),
            own_flags=_COMMON_OWN | {"extra-llm-api-options": _COMMON_OWN["config"]},
            config_own={"speculative-config": _SPECULATION, "model": _TARGET},
            lookup_bounds=("prompt_lookup_max",),
            gpu_flags=(("tp-size", "tensor-parallel-size"), ("pp-size", "pipeline-parallel-size")),
            takes_model_name=False,
        ),
        Kind(
            name="transformers",
            arguments=transformers.arguments,
            effective_config=transformers.effective_config,
            methods={"draft_model": "assistant_model", "ngram": "prompt_lookup"},
            own_flags=_COMMON_OWN
            | dict.fromkeys(
                ("assistant-model", "prompt-lookup", "num-speculative-tokens", "max-matching-ngram-size"), _SPECULATION
            ),
            flags=transformers.FLAGS,
            flag_types={"device": "value", "dtype": "value", "max-model-len": "integer"},
            takes_config=False,
            takes_options=False,
            lookup_bounds=("prompt_lookup_max",),
            per_request_speculation=True,
        ),
        Kind(
            name="endpoint",
            arguments=None,
            methods={},
            metrics=(metric_names.VLLM, metric_names.SGLANG),
            flags=(),
            takes_config=False,
            takes_options=False,
            reset_path="/reset_prefix_cache",
            per_request_speculation=True,
        ),
    )
}
