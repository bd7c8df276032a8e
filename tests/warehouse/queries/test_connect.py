"""A warehouse of another revision, or none, is refused with the command to run."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from lab.errors import RevisionError, UserError
from warehouse.queries.connect import open_warehouse
from warehouse.settings import Settings


@pytest.mark.parametrize(
    ("revision", "sentence"),
    [("warehouse_9999", "upgrade Drafthouse"), ("warehouse_0001", "older than .* run `drafthouse migrate`")],
)
def test_a_warehouse_of_another_revision_is_refused(settings: Settings, revision: str, sentence: str) -> None:
    with duckdb.connect(settings.warehouse_file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", [revision])
    with pytest.raises(RevisionError, match=sentence):
        open_warehouse(settings.warehouse_file)


def test_a_home_without_a_warehouse_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no warehouse in .* yet: run `drafthouse migrate`"):
        open_warehouse(Settings(home=tmp_path).warehouse_file)
