"""How `make test` shares the tests among two processes: `pytest -n 2 -p tests.side_by_side`."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

#: Which files share a process. Engines never measure two at once, because they are bound to the same processor;
#: other files share servers that take seconds to start.
_TOGETHER = {"_for_real": "measuring", "tests/e2e/": "measuring", "/transformers_server/": "transformers"}


def group_of(nodeid: str) -> str:
    """What runs in one process: some files together, any other by itself, because its tests share homes and servers."""
    groups = (group for part, group in _TOGETHER.items() if part in nodeid)
    return next(groups, nodeid.partition("::")[0])


class _Groups(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Each process takes the next group when it is done with one."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling:
    return _Groups(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest group first; the others follow in their order beside it."""
    items.sort(key=lambda item: group_of(item.nodeid) != "measuring")
