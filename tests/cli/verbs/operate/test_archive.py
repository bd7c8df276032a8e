"""`drafthouse archive`, as a person or a program types it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from host.settings import Settings
from tests.cli.homes import home_with_databases
from tests.warehouse.asking import ask
from tests.warehouse.runs import request, write_run
from warehouse.ingest.service import ingest_all


def test_old_requests_are_listed_and_moved_only_when_that_is_confirmed(tmp_path: Path) -> None:
    home = home_with_databases(tmp_path)
    settings = Settings(home=home.folder)
    began = datetime.now(UTC) - timedelta(days=100)
    write_run(settings.bundles, (request(), request(index=1)), started_at=began.isoformat())
    ingest_all(settings)
    archived = "SELECT count(*) FROM archived_runs"
    line = f"{began:%Y-%m}: 2 requests of 1 runs\n"

    refusal = home.refusal("archive", "--older-than", "3 months")
    assert "--older-than takes a number of days such as 90d, not '3 months'" in refusal
    assert "no run that began before" in home.ask("archive", "--older-than", "101d").stdout
    shown = home.ask("archive", "--older-than", "90d", "--dry-run").stdout
    assert shown == f"{line}would be moved to {settings.archive_dir.absolute()}\n"
    unasked = home.ask("archive", "--older-than", "90d")
    assert (unasked.returncode, unasked.stdout) == (2, line)
    assert "nothing is moved unless you agree: run this in a terminal, or add --yes" in unasked.stderr
    assert ask(settings, archived) == [(0,)]
    moved = home.ask("archive", "--older-than", "90d", "--yes").stdout
    assert moved.startswith(f"{line}moved 2 requests; the warehouse's file has ")
    assert (ask(settings, archived), ask(settings, "SELECT count(*) FROM requests")) == ([(1,)], [(2,)])
