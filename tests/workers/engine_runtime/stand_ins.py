"""A home whose engines.toml has the stand-ins, and short words for what is asked of them."""

from __future__ import annotations

import sys
from typing import Any

from jobs.table import Job
from lab.metrics.records import RunRecord
from tests.workers import homes
from tests.workers.homes import REPOSITORY, Home
from warehouse.bundles.run_bundle import Bundle, find_bundles, read_bundle

TABLE = """
[{name}]
kind = "{kind}"
command = ["{python}", "-m", "tests.workers.engine_runtime.stand_in_{kind}"]
[{name}.environment]
PYTHONPATH = "{repository}"
HOME_OF_TEST = "{home}"
"""
PLAIN = {"name": "plain", "baseline": True}
ONE_LOAD = [{"max_concurrency": 1, "num_prompts": 3}]


def add_stand_in(home: Home, kind: str, **environment: str) -> None:
    """A table of the kind's own name."""
    table = TABLE.format(name=kind, kind=kind, python=sys.executable, repository=REPOSITORY, home=home.folder)
    more = "".join(f'{name} = "{value}"\n' for name, value in environment.items())
    with home.settings.engines_file.open("a", encoding="utf-8") as file:
        file.write(table + more)


def add_draft(home: Home) -> str:
    """A folder that looks like a draft model."""
    folder = home.folder / "draft"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return str(folder)


def worked(home: Home, **study: Any) -> Job:
    """As `homes.worked`, with one small load unless `study` has others."""
    return homes.worked(home, **({"loads": ONE_LOAD} | study))


def bundles(home: Home, arm: str) -> list[Bundle]:
    stored = map(read_bundle, find_bundles(home.settings.bundles))
    return [bundle for bundle in stored if bundle.run.arm.name == arm]


def grown(run: RunRecord, counter: str) -> float | None:
    """By how much a counter of the server grew over the measured window; None where it was not told."""
    before, after = getattr(run.counters_before, counter), getattr(run.counters_after, counter)
    return None if before is None or after is None else after - before
