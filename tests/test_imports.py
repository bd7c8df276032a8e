"""How modules import one another, beyond what the contracts of `lint-imports` say."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp
import pytest


@pytest.mark.parametrize("room", ["lab", "host", "jobs", "workers", "webapp", "services", "cli"])
def test_no_modules_of_a_room_import_one_another_in_a_circle(room: str) -> None:
    """Imports inside functions count too. Not yet of warehouse: its publication and revisions need each other."""
    graph = grimp.build_graph(room, cache_dir=None)
    TopologicalSorter({of: graph.find_modules_directly_imported_by(of) for of in graph.modules}).prepare()
