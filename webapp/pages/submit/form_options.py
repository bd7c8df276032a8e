"""The options that the Submit form offers: presets, engines with their methods, datasets.

They are read again after a few seconds. They are suggestions only: whether a study can run is checked when it is
submitted.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from access.web import visitor
from jobs.datasets import listing
from jobs.datasets.listing import DatasetState
from jobs.engines.capabilities import Capabilities
from jobs.engines.checks import Problem
from jobs.engines.kinds import ENDPOINT
from jobs.engines.speculation.checks import options_of
from jobs.engines.speculation.option import Option
from jobs.presets import Preset, all_presets
from jobs.submission import Context, problems
from jobs.worker_registry import known_engines
from lab.roles import Role
from lab.study import Study
from lab.study.methods import METHODS
from webapp.shared import published_data

#: The engine of a new arm, offered even before a worker has reported its engines.
DEFAULT_ENGINE = "vllm"
DEMO = "demo"
_REFRESH_S = 10
_NOTES = {"built in": "", "registered": "registered", "missing": "not on this host yet"}


@st.cache_resource(show_spinner=False, ttl=_REFRESH_S)
def presets() -> list[Preset]:
    """The demo comes first, as it runs anywhere without changes."""
    return sorted(all_presets(), key=lambda preset: (preset.name != DEMO, preset.name))


@st.cache_resource(show_spinner=False, ttl=_REFRESH_S)
def engines() -> list[Capabilities]:
    """The engines that the workers have reported."""
    return known_engines(published_data.engine())


def engine_names() -> list[str]:
    """The engines that workers have reported, and two that are offered even if none has."""
    return list(dict.fromkeys([*(capabilities.engine for capabilities in engines()), DEFAULT_ENGINE, ENDPOINT]))


def is_endpoint(engine: str | None) -> bool:
    return engine == ENDPOINT or any(
        capabilities.engine == engine and capabilities.kind == ENDPOINT for capabilities in engines()
    )


def methods(engine: str | None) -> list[str]:
    """The methods of this engine as workers reported them, well-known ones first; all well-known ones if none did."""
    reported = [
        method for capabilities in engines() if capabilities.engine == engine for method in capabilities.methods
    ]
    well_known = [method for method in METHODS if method in reported or not reported]
    return list(dict.fromkeys([*well_known, *reported]))


def speculation_options(engine: str | None, method: str | None) -> list[Option]:
    """The options of this method in the engine as a worker reported it; those of vLLM if none did."""
    reported = next((capabilities for capabilities in engines() if capabilities.engine == engine), None)
    options = options_of(reported.kind if reported else DEFAULT_ENGINE, method)
    if reported is None or reported.speculation is None:
        return list(options)
    return [option for option in options if option.name in reported.speculation]


@st.cache_resource(show_spinner=False, ttl=_REFRESH_S)
def datasets() -> list[DatasetState]:
    return listing.list_datasets(published_data.settings())


def missing(study: Study) -> list[Problem]:
    """What keeps the study from being submitted, as far as it is known without asking an engine."""
    return list(_missing(study.digest(), visitor.actor().role, study))


@st.cache_resource(show_spinner=False, ttl=_REFRESH_S, max_entries=200)
def _missing(digest: str, role: Role, _study: Study) -> list[Problem]:  # noqa: ARG001 - the key of the cache
    context = Context(published_data.settings(), published_data.engine())
    return problems(context, _study, role, probe_engines=False)


def add_dataset(name: str, file: Path, *, replace: bool = False) -> DatasetState:
    """Raises UserError naming the first invalid line, or that another file has the name."""
    added = listing.add_dataset(published_data.settings(), name, file, actor=visitor.actor(), replace=replace)
    datasets.clear()
    _missing.clear()
    return added


def dataset_labels() -> dict[str, str]:
    """Name -> label; missing datasets come last."""
    states = sorted(datasets(), key=lambda state: state.state == "missing")
    return {state.name: f"{state.name} ({note})" if (note := _NOTES[state.state]) else state.name for state in states}


def categories(dataset: str) -> list[str]:
    return next((list(state.stock.categories) for state in datasets() if state.name == dataset and state.stock), [])
