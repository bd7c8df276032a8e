"""The description of a kind of engine by which Drafthouse starts it, sends it requests and reads its metrics.

Each kind is declared in a file of its own: `jobs/engines/kinds/<kind>.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from jobs.engines.speculation.option import Option
from lab.study import Arm, Speculation, Study
from lab.study.arm import SCHEDULE
from lab.study.methods import methods_of


@dataclass(frozen=True)
class Metrics:
    """The metrics page of an engine and the names on it.

    `counters` maps our names (ServerCounters) to cumulative metrics, `gauges` to those of the moment: running and
    waiting requests, and the share of the KV cache in use (0 to 1). If an engine counts tokens by position in the
    draft, sums are computed from those. `formerly` has the names of older releases, read if the newer ones are missing.
    `added` has metrics, by our names, that count further cases of the same: hits of a second cache, say. `copies` are
    labels of processes that share each request: each of them counts it, so only the greatest of their values counts.
    """

    counters: Mapping[str, str]
    gauges: Mapping[str, str]
    path: str = "/metrics"
    position_label: str = "position"
    accepted_per_position: str | None = None
    drafted_per_position: str | None = None
    formerly: Mapping[str, str] = field(default_factory=dict)
    added: Mapping[str, str] = field(default_factory=dict)
    copies: tuple[str, ...] = ()


class Arguments(Protocol):
    """Returns what follows the command of an engine's profile; may write a file into the folder. `takes(flag)` says
    whether this version of the engine has a flag that no study set.
    """

    def __call__(
        self, models_dir: Path, study: Study, arm: Arm, port: int, folder: Path, /, *, takes: Callable[[str], bool]
    ) -> tuple[str, ...]: ...


#: What a flag takes: one of its choices, or a switch, integer, number, size (8192 or 8k) or any other single value.
FlagType = Literal["switch", "integer", "number", "size", "value"] | tuple[str, ...]
#: Yields (option of speculation, problem) for combinations that this version of the engine would refuse.
Conflicts = Callable[[Speculation, str | None], Iterator[tuple[str, str]]]

LISTENS = "the engine listens on 127.0.0.1 alone"
SPECULATION = "set speculation in the arm"
TARGET = "set target in the study"
CONFIG = "write the settings into the arm's config, so that they are stored with the results"
_SECRET = "a study is stored and shown to others: set the engine's own variable in the worker's engines.toml"  # noqa: S105 - a sentence
#: Flags that Drafthouse sets, or forbids studies to set, for every engine.
COMMON_OWN: Mapping[str, str] = {
    "model": TARGET,
    "host": LISTENS,
    "port": "Drafthouse picks a free port",
    "served-model-name": "it is the target's name",
    "api-key": LISTENS,
    "hf-token": _SECRET,
    "config": CONFIG,
}


@dataclass(frozen=True)
class Kind:
    """One kind of engine. `lab.study.methods` has its names for the methods of speculation.

    `own_flags` are flags that Drafthouse sets, each with what to set in the study instead. `flags` lists all flags with
    what each takes; None if they have to be read from the engine.
    """

    name: str
    started_as: str  # for docs/engines.md, as `counted_on`
    counted_on: str  # where its counters are
    arguments: Arguments | None  # None: it is already running
    metrics: tuple[Metrics, ...]
    effective_config: Callable[[Path], dict[str, str]] = lambda _log: {}
    #: Returns why what it serves, by its configuration, is not the arm's target; None if nothing speaks against it.
    other_model: Callable[[str, Arm, Mapping[str, str]], str | None] = lambda _target, _arm, _config: None
    probe: Path | None = None  # a script for the engine's Python that prints its methods, flags and options
    own_flags: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, FlagType] | None = None
    takes_config: bool = True  # reads Arm.config, from words like flags or from a YAML file
    config_own: Mapping[str, str] = field(default_factory=dict)  # keys of that file that Drafthouse sets
    options: tuple[Option, ...] = ()  # of speculation
    conflicts: Conflicts = lambda _speculation, _version: iter(())
    lookup_bounds: tuple[str, ...] = ()  # which of prompt_lookup_min and prompt_lookup_max it has
    remembers: Callable[[Speculation], bool] | None = None  # whether its drafts keep answers that vLLM's would not
    forgets: str | None = None  # the option that turns this off
    gpu_flags: tuple[tuple[str, ...], ...] = ()  # their product is the number of GPUs; synonyms in a tuple
    version_paths: tuple[str, ...] = ("/version",)
    reset_path: str | None = None  # request that empties the prefix cache
    reset_tiers_path: str | None = None  # the same with the caches behind it, which not every version has
    takes_model_name: bool = True  # serves under the given name, else under the one at /v1/models
    further: Mapping[str, bool] = field(default_factory=dict)  # keys of each request under speculation
    token_ids: bool = False  # each answer may report its token ids; older versions ignore the option

    @property
    def is_started(self) -> bool:
        """Return whether Drafthouse starts it as a process."""
        return self.arguments is not None

    @property
    def methods(self) -> tuple[str, ...]:
        """Return the methods of speculation that it is known to have, by our names."""
        return methods_of(self.name)

    @property
    def takes_schedule(self) -> bool:
        """Return whether the number of drafted tokens may depend on the number of requests at once."""
        return any(option.name == SCHEDULE for option in self.options)
