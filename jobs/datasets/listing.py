"""The datasets, with the state and digest of each on this host, for the command line and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from host.disk_space import refuse_full_disk
from host.settings import Settings
from jobs.datasets import registry
from jobs.datasets.catalogue import CUSTOM, DATASETS, Dataset
from jobs.datasets.files import Stock
from jobs.datasets.registry import resolve
from lab import roles
from lab.errors import UserError
from lab.roles import Actor, Change
from lab.study import Workload
from lab.study.model_base import Frozen
from warehouse.app_db import audit
from warehouse.app_db.engine import open_engine


class DatasetState(Frozen):
    """A dataset and whether it is usable here; a `missing` dataset becomes usable once its file is registered.

    `stock` is None for generated prompts, and for a missing dataset.
    """

    name: str
    state: Literal["built in", "registered", "missing"]
    what: str
    source: str
    licence: str
    how_to_get: str
    columns: str
    synthetic: bool
    sha256: str | None = None
    stock: Stock | None = None
    original_name: str | None = None
    added_at: str | None = None  # UTC, ISO 8601


def list_datasets(settings: Settings) -> list[DatasetState]:
    """Return Drafthouse's own datasets in the order of the catalogue, then the user's by name."""
    own = [entry for entry in registry.all_registered(settings.datasets) if entry.name not in DATASETS]
    return [_state(settings, dataset) for dataset in DATASETS.values()] + [_registered(CUSTOM, entry) for entry in own]


def dataset_digest(settings: Settings, workload: Workload) -> str | None:
    """Return the SHA-256 of the file (or files) that the workload picks from; None for generated prompts.

    Raises UserError if the dataset cannot be read.
    """
    resolved = resolve(settings, workload.dataset)
    if resolved.dataset.make is not None:
        return None
    return resolved.entry.sha256 if resolved.entry is not None else resolved.read().sha256


def add_dataset(settings: Settings, name: str, file: Path, *, actor: Actor, replace: bool = False) -> DatasetState:
    """Check the whole file and register it under `name`.

    Raises UserError naming the invalid line, or that another file has this name unless it is to `replace` it, and
    AccessError.
    """
    roles.require(actor, Change.DATASETS)
    refuse_full_disk(settings.datasets, settings.least_free_mib, "a dataset")
    entry = registry.add(settings.datasets, name, file, replace=replace)
    _record(settings, actor, name, added=entry.original_name, sha256=entry.sha256, rows=entry.stock.rows)
    return _registered(DATASETS.get(entry.format, CUSTOM), entry)


def remove_dataset(settings: Settings, name: str, *, actor: Actor) -> None:
    """Unregister the name and delete the copy. Raises UserError if nothing is registered under it, and AccessError."""
    roles.require(actor, Change.DATASETS)
    registry.remove(settings.datasets, name)
    _record(settings, actor, name, removed=True)


def _record(settings: Settings, actor: Actor, name: str, **detail: object) -> None:
    with open_engine(settings.app_database_url) as engine:
        audit.record_alone(engine, actor, Change.DATASETS, name, **detail)


def _state(settings: Settings, dataset: Dataset) -> DatasetState:
    if dataset.is_registered:
        entry = registry.registered(settings.datasets, dataset.name)
        return _declared(dataset, "missing") if entry is None else _registered(dataset, entry)
    if dataset.make is not None:
        return _declared(dataset, "built in")
    try:
        read = resolve(settings, dataset.name).read()
    except UserError:
        return _declared(dataset, "missing")
    return _declared(dataset, "built in").model_copy(update={"sha256": read.sha256, "stock": read.stock})


def _declared(dataset: Dataset, state: Literal["built in", "missing"]) -> DatasetState:
    about = ("name", "what", "source", "licence", "how_to_get", "columns", "synthetic")
    return DatasetState(state=state, **{name: getattr(dataset, name) for name in about})


def _registered(dataset: Dataset, entry: registry.Registered) -> DatasetState:
    own = {name: getattr(entry, name) for name in ("name", "sha256", "stock", "original_name", "added_at")}
    return _declared(dataset, "missing").model_copy(update=own | {"state": "registered"})
