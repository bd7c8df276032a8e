"""A fleet upgraded under load: the page's host first, with its migration, then one worker after the other."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from jobs.fleet.worker_registry import list_workers
from tests.fleet.lab import Fleet, new_fleet
from tests.processes import REPOSITORY
from tests.workers.homes import until
from warehouse.schema.revisions import head

pytestmark = [pytest.mark.fleet, pytest.mark.engine]
NOT_CODE = (".*", "var", "build", "dist", "mutants", "docs", "shared", "__pycache__", "*.egg-info", "benchmarks")
MIGRATION = """
import sqlalchemy as sa
from alembic import op
revision, down_revision, branch_labels, depends_on = "app_9999", "{before}", None, None
def upgrade() -> None:
    op.add_column("jobs", sa.Column("of_the_next_release", sa.Text, server_default="new"))
"""


@pytest.fixture(scope="module")
def next_release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This code with one migration more."""
    folder = tmp_path_factory.mktemp("next") / "code"
    shutil.copytree(REPOSITORY, folder, ignore=shutil.ignore_patterns(*NOT_CODE))
    migration = folder / "migrations" / "app" / "versions" / "9999_next_release.py"
    migration.write_text(MIGRATION.format(before=head("app")))
    return folder


@pytest.fixture
def fleet(migrated: Path, tmp_path: Path) -> Iterator[Fleet]:
    with new_fleet(tmp_path, migrated, 20.0, "w1", "w2", "ingester") as it:
        yield it


def older(fleet: Fleet) -> set[str]:
    """The hosts whose workers say that the database is too new for them."""
    said = [(it.host, it.waits_for or "") for it in list_workers(fleet.home.database) if not it.is_away()]
    return {host for host, why in said if "was written by a newer Drafthouse (revision app_9999)" in why}


def upgrade_worker(fleet: Fleet, host: str, code: Path) -> None:
    """TERM drains it: it ends after its block."""
    worker = fleet.started.pop(host)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(120) == 0
    fleet.start(host, code)


def test_an_upgrade_under_load_loses_doubles_and_fails_nothing(
    fleet: Fleet, next_release: Path, record_property: Callable[[str, object], None]
) -> None:
    ids = [fleet.submit(name=f"study {number}", repeats=3) for number in range(4)]
    for job_id in ids[:2]:
        fleet.host_at(job_id, "measuring")
    fleet.stop("ingester")
    migrate = (sys.executable, "-m", "drafthouse_command", "migrate")
    environment = fleet.environment("ingester") | {"PYTHONPATH": str(next_release)}
    subprocess.run(migrate, cwd=next_release, env=environment, check=True)
    fleet.start("ingester", next_release)
    upgrade_worker(fleet, "w1", next_release)  # while it measures
    until(lambda: fleet.job(ids[1]).state == "done", "the older worker finishes its study")
    until(lambda: older(fleet) == {"w2"}, "the older worker leaves the database alone, and says why")
    assert [fleet.events(job_id)[-1][0] for job_id in ids[2:]] != ["claimed", "claimed"]
    upgrade_worker(fleet, "w2", next_release)
    outcomes = [fleet.assert_whole(job_id, runs=12) for job_id in ids]
    with fleet.home.database.connect() as connection:
        assert connection.scalar(sa.text("SELECT count(*) FROM jobs WHERE of_the_next_release = 'new'")) == len(ids)
    record_property("fleet", f"upgrade under load: {' | '.join(outcomes)}")
