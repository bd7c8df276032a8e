"""What the submit page has to choose from: presets, engines with their methods, datasets. Asked again every few seconds
at most, and only offered: whether a study can be run is said when it is submitted.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from jobs.datasets import listing
from jobs.datasets.listing import DatasetState
from jobs.engines.capabilities import Capabilities
from jobs.presets import Preset, all_presets
from jobs.worker_registry import known_engines
from lab.study.arm import METHODS
from webapp.shared import published_data

#: What a new arm is served by while no worker has told what it has.
DEFAULT_ENGINE = "vllm"
#: The kind of engine that runs already, and what is offered where no worker has told of it.
ENDPOINT = "endpoint"
DEMO = "demo"
_LOOK_AGAIN_S = 10
_SIGNS = {"built in": "", "registered": "registered", "missing": "not here yet"}


@st.cache_resource(show_spinner=False, ttl=_LOOK_AGAIN_S)
def presets() -> list[Preset]:
    """The demo first, it is the one that runs anywhere as it is."""
    return sorted(all_presets(), key=lambda preset: (preset.name != DEMO, preset.name))


@st.cache_resource(show_spinner=False, ttl=_LOOK_AGAIN_S)
def engines() -> list[Capabilities]:
    """What the workers have told of their engines."""
    return known_engines(published_data.engine())


def engine_names() -> list[str]:
    return list(dict.fromkeys([*(each.engine for each in engines()), DEFAULT_ENGINE, ENDPOINT]))


def is_endpoint(engine: str | None) -> bool:
    return engine == ENDPOINT or any(each.engine == engine and each.kind == ENDPOINT for each in engines())


def methods(engine: str | None) -> list[str]:
    """What some worker's engine of this name has, the well-known first; all of those where nobody has told."""
    told = [method for each in engines() if each.engine == engine for method in each.methods]
    ours = [method for method in METHODS if method in told or not told]
    return list(dict.fromkeys([*ours, *told]))


@st.cache_resource(show_spinner=False, ttl=_LOOK_AGAIN_S)
def datasets() -> list[DatasetState]:
    return listing.list_datasets(published_data.settings())


def add_dataset(name: str, file: Path) -> DatasetState:
    """Raises UserError naming the line that is wrong."""
    added = listing.add_dataset(published_data.settings(), name, file)
    datasets.clear()
    return added


def dataset_labels() -> dict[str, str]:
    """What each is listed as, by its name; those that are here first."""
    states = sorted(datasets(), key=lambda each: each.state == "missing")
    return {each.name: f"{each.name} ({sign})" if (sign := _SIGNS[each.state]) else each.name for each in states}


def categories(dataset: str) -> list[str]:
    return next((list(each.stock.categories) for each in datasets() if each.name == dataset and each.stock), [])
