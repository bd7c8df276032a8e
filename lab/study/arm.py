"""One way to serve the target: engine, flags, and how tokens are drafted."""

from __future__ import annotations

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, JsonValue, ValidationInfo, field_validator, model_validator

from lab.study.methods import method_of
from lab.study.model_base import FlagValue, Frozen, Input, Name, RecordField

#: vLLM's option for how many tokens it drafts at which batch size: [[first, last, tokens], ...].
SCHEDULE = "num_speculative_tokens_per_batch_size"
#: vLLM's option for how many answers its suffix tree keeps.
CACHED_ANSWERS = "suffix_decoding_max_cached_requests"


def _null_in(value: JsonValue) -> str | None:
    """Return the path of the first null inside, like `.a[2].b`, or None."""
    if isinstance(value, dict):
        inner = ((f".{key}", item) for key, item in value.items())
    elif isinstance(value, list):
        inner = ((f"[{index}]", item) for index, item in enumerate(value))
    else:
        return None
    for step, item in inner:
        path = "" if item is None else _null_in(item)
        if path is not None:
            return step + path
    return None


def _without_null(settings: dict[str, JsonValue], info: ValidationInfo) -> dict[str, JsonValue]:
    """Refuse null: TOML, the readable form of a study, has none."""
    if path := _null_in(settings):
        raise ValueError(f"{info.field_name}{path} is null, which a study cannot contain: leave it out")
    return settings


_Settings = Annotated[dict[str, JsonValue], AfterValidator(_without_null)]


class Speculation(Frozen):
    """How tokens are drafted: the method, the draft model and how many tokens a round.

    `options` are further keys of the engine's own speculation settings (vLLM's speculative-config, say); a value may
    be a list or a table.
    """

    method: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        max_length=100,
        title="Method",
        description="How tokens are drafted: the methods the engine supports, where a worker has reported them",
    )
    model: Annotated[Name | None, Input("none, or a folder or hub name")] = Field(
        default=None,
        title="Draft model",
        description="A folder or hub name; `reference-draft` and `reference-eagle3` are included. "
        "For look-up methods: the shortest and longest match in tokens (prompt_lookup_min and _max)",
    )
    num_speculative_tokens: int = Field(ge=1, le=64, title="k", description="Speculative tokens per round")
    prompt_lookup_min: Annotated[int | None, Input("shortest")] = Field(
        default=None, ge=1, le=1_000_000, title="Shortest match"
    )
    prompt_lookup_max: Annotated[int | None, Input("longest")] = Field(
        default=None, ge=1, le=1_000_000, title="Longest match"
    )
    options: Annotated[_Settings, Input("draft_tensor_parallel_size = 1")] = Field(
        default_factory=dict, title="All options of the method"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        draft_model = method_of(self.method).draft_model
        if draft_model == "needed" and self.model is None:
            raise ValueError(f"method {self.method} needs a draft model: set model to a hub name or a folder")
        if draft_model == "refused" and self.model is not None:
            raise ValueError(f"method {self.method} drafts without a model: remove model = {self.model!r}")
        return self

    @model_validator(mode="after")
    def _lookup_is_for_ngram(self) -> Self:
        shortest, longest = self.prompt_lookup_min, self.prompt_lookup_max
        if not method_of(self.method).looks_up and (shortest is not None or longest is not None):
            raise ValueError("prompt_lookup_min and prompt_lookup_max belong to method ngram: remove them")
        if shortest is not None and longest is not None and shortest > longest:
            raise ValueError(f"prompt_lookup_min {shortest} must not exceed prompt_lookup_max {longest}")
        return self

    @model_validator(mode="after")
    def _options_are_further_keys(self) -> Self:
        if own := sorted(set(self.options) & set(type(self).model_fields)):
            raise ValueError(f"options: {', '.join(own)} belongs beside options, not inside")
        return self

    def scheduled_tokens(self, requests: int) -> int | None:
        """Return how many tokens the arm's schedule drafts for that many requests at once; None without a schedule.

        As in vLLM, a range holds until the next one begins.
        """
        match self.options.get(SCHEDULE):
            case [*ranges]:
                scheduled = None
                for range_ in ranges:
                    match range_:
                        case [int(first), int(), int(tokens)] if first <= requests:
                            scheduled = tokens
                return scheduled
        return None

    @property
    def drafts_at_every_step(self) -> bool:
        """Return whether each target step has a draft of `num_speculative_tokens`; a look-up may find nothing."""
        varies = SCHEDULE in self.options or self.options.get("enable_adaptive_verification") is True
        return method_of(self.method).drafts_at_every_step and not varies

    @property
    def remembers(self) -> bool:
        """Return whether the method drafts from answers of earlier requests, or from what it learnt from them.

        `jobs.engines.kind.Kind.remembers` lists engines whose method of the same name does so too.
        """
        if method_of(self.method).drafter == "suffix tree":
            return self.options.get(CACHED_ANSWERS) != 0
        return self.options.get("enable_adaptive_verification") is True


_ADDRESS = "http://127.0.0.1:8000"


class Server(Frozen):
    """A running server, for engine = "endpoint"."""

    base_url: Annotated[str, Input("http://…")] = Field(
        pattern=r"^https?://[^\s@]+$",
        max_length=500,
        title="Server URL",
        description="Without /v1. The server is already running; nothing is started.",
    )
    served_model: Annotated[Name | None, Input("same as the target")] = Field(default=None, title="Served model")
    api_key: Annotated[str | None, Input("none")] = Field(
        default=None,
        pattern=r"^[A-Za-z][A-Za-z0-9_]*$",
        max_length=100,
        title="API key secret",
        description="The NAME of a secret DRAFTHOUSE_SECRET_NAME on the worker's host, never the key itself.",
    )
    api_key_header: Annotated[
        str | None, Input("Authorization"), RecordField("header in which the key was sent", since=14)
    ] = Field(
        default=None,
        pattern=r"^[A-Za-z][A-Za-z0-9-]*$",
        max_length=100,
        title="API key header",
        description="The header that gets the key alone, such as api-key; else Authorization: Bearer",
    )
    api_path: Annotated[str, RecordField("path of the API below the server's address", since=14)] = Field(
        default="/v1",
        pattern=r"^(/[A-Za-z0-9._~-]+)*$",
        max_length=200,
        title="API path",
        description="What follows the server URL before /completions and /chat/completions",
    )
    ca_file: Annotated[
        str | None, Input("public ones"), RecordField("file with the only trusted authorities", since=14)
    ] = Field(
        default=None,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        max_length=100,
        title="Certificate authority",
        description="A PEM file's name in the folder `authorities` of the worker's home, for https",
    )
    proxy: Annotated[str | None, Input("none"), RecordField("proxy between client and server", since=14)] = Field(
        default=None,
        pattern=r"^http://[^\s@/?#]+/?$",
        max_length=500,
        title="Proxy",
        description="Like http://proxy:3128, without a password. Then only requests are sent: counters stay unknown",
    )

    @field_validator("base_url", "proxy")
    @classmethod
    def _address_is_possible(cls, address: str | None) -> str | None:
        if address is None:
            return None
        try:
            parts = urlsplit(address)
            is_possible = bool(parts.hostname) and parts.port != 0
        except ValueError as error:
            raise ValueError(f"{address} is not a server address ({error}): write it like {_ADDRESS}") from None
        if not is_possible:
            raise ValueError(f"{address} is not a server address: write it like {_ADDRESS}")
        return address

    @property
    def shows_key(self) -> bool:
        """Return whether the proxy could read the key, which a study may send to its own server alone."""
        return None not in (self.api_key, self.proxy) and not self.base_url.startswith("https:")


class Arm(Frozen):
    """One way to serve the target.

    `flags` go on the engine's command line, over those of the study; `config` is what the engine reads from a YAML file
    (vLLM's --config, TensorRT-LLM's --extra_llm_api_options); `environment` is set for its process.
    """

    name: Annotated[Name, Input("a unique name")] = Field(title="Name")
    engine: Name = Field(
        default="vllm",
        title="Engine",
        description="Its name in the worker's engines.toml; endpoint: a server that is already running",
    )
    speculation: Speculation | None = Field(default=None, title="Speculation")
    flags: Annotated[dict[str, FlagValue], Input("max-num-seqs = 8")] = Field(default_factory=dict, title="Flags")
    config: Annotated[_Settings, Input("kv-cache-dtype: fp8")] = Field(
        default_factory=dict, title="Engine configuration file"
    )
    environment: Annotated[dict[str, str], Input("OMP_NUM_THREADS=1")] = Field(
        default_factory=dict, title="Environment"
    )
    server: Server | None = Field(default=None, title="Server")
    baseline: bool = Field(default=False, title="Baseline", description="The arm that the others are compared with")
