"""What a user submits: a target, the arms that serve it, the prompts and the loads."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

#: Speculation methods, and whether each needs a draft model (or head) beside the target.
METHODS: dict[str, bool] = {"draft_model": True, "eagle": True, "eagle3": True, "medusa": True, "ngram": False}

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+$")
]
FlagValue = bool | int | float | str


class Frozen(BaseModel):
    """Immutable, and a key it does not know is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def digest(self) -> str:
        """SHA-256 (hex) of the canonical JSON form: the same content has the same digest on every machine."""
        canonical = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


class Speculation(Frozen):
    """How tokens are drafted: the method, the draft model and how many tokens a round."""

    method: Literal["draft_model", "eagle", "eagle3", "medusa", "ngram"]
    model: Name | None = None
    num_speculative_tokens: int = Field(ge=1, le=64)
    prompt_lookup_min: int | None = Field(default=None, ge=1)
    prompt_lookup_max: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if METHODS[self.method] and self.model is None:
            raise ValueError(f"method {self.method} needs a draft model: set model to a hub name or a folder")
        if not METHODS[self.method] and self.model is not None:
            raise ValueError(f"method {self.method} drafts without a model: remove model = {self.model!r}")
        return self

    @model_validator(mode="after")
    def _lookup_is_for_ngram(self) -> Self:
        shortest, longest = self.prompt_lookup_min, self.prompt_lookup_max
        if self.method != "ngram" and (shortest is not None or longest is not None):
            raise ValueError("prompt_lookup_min and prompt_lookup_max belong to method ngram: remove them")
        if shortest is not None and longest is not None and shortest > longest:
            raise ValueError(f"prompt_lookup_min {shortest} must not exceed prompt_lookup_max {longest}")
        return self


class Arm(Frozen):
    """One way to serve the target."""

    name: Name
    engine: Name = "vllm"
    speculation: Speculation | None = None
    flags: dict[str, FlagValue] = Field(default_factory=dict)
    baseline: bool = False


class Workload(Frozen):
    """The prompts: a dataset, one of its categories (or all of them), and how much is to be generated."""

    dataset: Name = "reference"
    category: Name | None = None
    output_tokens: int = Field(default=64, ge=2, le=131_072)
    ignore_eos: bool = True

    @property
    def name(self) -> str:
        """`dataset/category/output_tokens`, unique within a study."""
        return f"{self.dataset}/{self.category or 'all'}/{self.output_tokens}"


class Load(Frozen):
    """The access pattern. `request_rate_rps` of None sends as fast as `max_concurrency` allows (closed loop)."""

    max_concurrency: int = Field(ge=1, le=4096)
    num_prompts: int = Field(ge=1, le=1_000_000)
    request_rate_rps: float | None = Field(default=None, gt=0)
    burstiness: float = Field(default=1.0, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _infinite_rate_is_closed_loop(cls, data: Any) -> Any:
        """Accept what `vllm bench serve` calls an unlimited rate: "inf" or an infinite float."""
        if isinstance(data, dict) and data.get("request_rate_rps") in ("inf", math.inf):
            return {**data, "request_rate_rps": None}
        return data

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.max_concurrency > self.num_prompts:
            raise ValueError(
                f"max_concurrency {self.max_concurrency} can never be reached with num_prompts {self.num_prompts}: "
                f"ask for at least {self.max_concurrency} prompts"
            )
        if self.request_rate_rps is None and self.burstiness != 1.0:
            raise ValueError("burstiness needs a request_rate_rps: set a rate, or leave burstiness out")
        return self

    @property
    def name(self) -> str:
        """A short label, unique within a study: concurrency, and the arrivals where there is a rate."""
        rate = "" if self.request_rate_rps is None else f"-{self.request_rate_rps:g}rps-b{self.burstiness:g}"
        return f"c{self.max_concurrency}-n{self.num_prompts}{rate}"


class Sampling(Frozen):
    """Always sent and always stored, because an engine's own defaults differ. The default is greedy."""

    temperature: float = Field(default=0.0, ge=0, le=2)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int = Field(default=0, ge=0)


class Slo(Frozen):
    """A request is good when it keeps every bound that is set; goodput counts good requests."""

    ttft_ms: float | None = Field(default=None, gt=0)
    tpot_ms: float | None = Field(default=None, gt=0)
    e2e_ms: float | None = Field(default=None, gt=0)


class Study(Frozen):
    """All arms x workloads x loads, `repeats` times."""

    name: Name
    target: Name
    arms: tuple[Arm, ...] = Field(min_length=1)
    workloads: tuple[Workload, ...] = Field(min_length=1)
    loads: tuple[Load, ...] = Field(min_length=1)
    repeats: int = Field(default=1, ge=1, le=100)
    order: Literal["interleaved", "fewest_launches"] = "interleaved"
    seed: int = Field(default=0, ge=0)
    endpoint: Literal["completions", "chat"] = "completions"
    sampling: Sampling = Sampling()
    slo: Slo = Slo()
    engine_flags: dict[str, FlagValue] = Field(default_factory=dict)
    price_usd_per_hour: float | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _distinct_parts(self) -> Self:
        for field in ("arms", "workloads", "loads"):
            names = [part.name for part in getattr(self, field)]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"{field} must differ from each other: {', '.join(map(repr, twice))} is there twice")
        return self

    @model_validator(mode="after")
    def _one_baseline(self) -> Self:
        marked = [arm.name for arm in self.arms if arm.baseline]
        if len(marked) > 1:
            raise ValueError(f"arms: only one may be the baseline, but {' and '.join(map(repr, marked))} are marked so")
        if not marked and sum(arm.speculation is None for arm in self.arms) != 1:
            raise ValueError("arms: mark the one that the others are compared with as baseline = true")
        return self

    @property
    def baseline(self) -> Arm:
        """The arm marked as baseline, or else the only one without speculation."""
        marked = [arm for arm in self.arms if arm.baseline]
        return marked[0] if marked else next(arm for arm in self.arms if arm.speculation is None)
