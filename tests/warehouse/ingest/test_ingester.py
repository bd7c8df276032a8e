"""The ingester as a process: alone on its home, seen by readers in seconds, patient with a full disk."""

from __future__ import annotations

import random
import re
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import pytest

from host.settings import Settings
from lab.errors import UserError
from tests.warehouse.ingest.processes import ingester, log, until
from tests.warehouse.runs import request, write_run
from warehouse.ingest import service

pytestmark = pytest.mark.engine

#: Opens the published file as anybody would, again and again, and says what it saw at the end.
_READER = """
import duckdb, sys
seen = []
while sys.stdin.readline() == "again\\n":
    with duckdb.connect(sys.argv[1], read_only=True) as connection:
        seen.append(connection.execute("select count(*) from results where origin = 'measured'").fetchone()[0])
    print(seen[-1], flush=True)
assert seen == sorted(seen)
"""


def published_runs(settings: Settings) -> int:
    with duckdb.connect(settings.warehouse_file, read_only=True) as connection:
        row = connection.execute("select count(*) from results where origin = 'measured'").fetchone()
    assert row is not None
    return int(row[0])


def test_another_process_can_always_read_and_sees_each_published_run(settings: Settings) -> None:
    arguments = [sys.executable, "-c", _READER, str(settings.warehouse_file)]
    with (
        ingester(settings),
        subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader,
    ):
        assert reader.stdin is not None
        assert reader.stdout is not None
        source, target = reader.stdout, reader.stdin

        def seen() -> int:
            target.write("again\n")
            target.flush()
            return int(source.readline())

        assert seen() == 0
        until(lambda: "ingesting" in log(settings).read_text())
        for number in range(5):
            write_run(settings.bundles, run_id=f"run-{number}")
            took_s = until(lambda count=number + 1: seen() == count)  # type: ignore[misc]  # mypy: lambda defaults
            print(f"seen after {took_s:.2f} s")
        target.close()
        assert reader.wait() == 0


def test_a_second_ingester_is_refused_and_the_first_has_no_pandas(
    settings: Settings,
) -> None:
    with ingester(settings) as first:
        write_run(settings.bundles)
        until(lambda: published_runs(settings) == 1)
        refusal = re.escape(f"an ingester already runs on {settings.home} (process {first.pid}): stop it first")
        with pytest.raises(UserError, match=refusal):
            service.run(settings, threading.Event())
        mapped = Path(f"/proc/{first.pid}/maps").read_text(encoding="utf-8")
    assert "pyarrow" in mapped
    assert "pandas" not in mapped


def test_sigterm_ends_it_cleanly_with_everything_published(settings: Settings) -> None:
    with ingester(settings) as process:
        until(lambda: "ingesting" in log(settings).read_text())
        for number in range(3):
            write_run(settings.bundles, run_id=f"run-{number}")
        until(lambda: published_runs(settings) > 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=600) == 0
    service.ingest_all(settings)
    assert published_runs(settings) == 3


def test_a_home_never_migrated_is_refused_with_the_command(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    with ingester(settings) as process:
        assert process.wait(timeout=600) == 1
    assert "run `drafthouse migrate`" in log(settings).read_text()


def test_a_full_disk_is_reported_and_loses_nothing(settings: Settings) -> None:
    """A limit on file sizes stands in for the full disk: the kernel refuses the writes in the same way."""
    with ingester(settings) as process:
        write_run(settings.bundles, run_id="small")
        until(lambda: published_runs(settings) == 1)
        full = settings.master_file.stat().st_size + 2**14
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (full, resource.RLIM_INFINITY))
        text = random.Random(0).randbytes(2**21).hex()  # noqa: S311 - text that does not compress
        write_run(settings.bundles, (request(output_text=text),), run_id="large")
        complaint = re.compile(
            r"(ingesting job-1/large|publishing) failed: .*Could not write file .*/master\.duckdb.*: File too large\. "
            r"Nothing is lost; trying again in 2 s"
        )
        until(lambda: complaint.search(log(settings).read_text()) is not None)
        assert published_runs(settings) == 1
        assert process.poll() is None
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        until(lambda: published_runs(settings) == 2)
    assert "Traceback (most recent call last):" in log(settings).read_text()
