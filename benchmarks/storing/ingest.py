"""Part ingest: requests that the ingester takes in a second of one processor, judging included, beside plain DuckDB.

Bundles of 2,000 requests, each with 128 chunks, 500 letters and 128 token ids, are ingested one by one, and together,
as bundles that wait are. The rival is DuckDB on one thread, which copies the same requests from their Parquet files
into a table, without metrics, histograms and checks. The last line counts checkpoints too, which compress the rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb

from benchmarks.processes import own_home
from benchmarks.reading.filling import made_requests, made_run
from benchmarks.table import Row, least_processor_s, show
from host.settings import Settings
from lab.errors import EngineError
from warehouse.bundles.run_bundle import REQUESTS_FILE, write_bundle
from warehouse.ingest.bundle_rows import add_bundles, batches
from warehouse.ingest.master import connect_master
from warehouse.migrate import migrate

REQUESTS, TOGETHER = 2000, 8
AIM_REQUESTS_PER_S = 40_000


def run(settings: Settings, repeats: int) -> None:
    """Write bundles into a home of its own, ingest them, and print."""
    with own_home(settings) as own:
        measure(own, max(repeats, 5))


def measure(settings: Settings, repeats: int, count: int = REQUESTS) -> None:
    """Ingest new bundles in each repeat, and print."""
    migrate(settings)
    requests = made_requests(count, "ingest")

    def new(name: str, bundles: int) -> list[list[Path]]:
        print(f"ingest: writing the bundles {name}", file=sys.stderr)
        runs = [[made_run(f"{name} {repeat} {number}") for number in range(bundles)] for repeat in range(repeats)]
        return [[write_bundle(settings.bundles, run, requests, (), None) for run in group] for group in runs]

    single, together = new("one by one", 1), new("together", TOGETHER)
    whole = [folder for group in new("with checkpoints", TOGETHER) for folder in group]
    with connect_master(settings.master_file) as connection:

        def add(folders: list[Path]) -> None:
            for batch in batches(folders):
                if rejected := add_bundles(connection, settings.bundles, batch):
                    raise EngineError(f"the ingester rejects a made bundle: {rejected}")

        def add_and_store(_: int) -> None:
            add(whole)
            connection.execute("CHECKPOINT")

        single_s = least_processor_s(lambda repeat: add(single[repeat]), repeats)
        together_s = least_processor_s(lambda repeat: add(together[repeat]), repeats) / TOGETHER
        connection.execute("CHECKPOINT")
        stored_s = least_processor_s(add_and_store, 1) / len(whole)
    copied_s, copied_and_stored_s = _copied(settings.home / "plain.duckdb", together)
    rows = [
        Row("requests/s, ingested together", [count / together_s], [count / copied_s], _AIM),
        Row("requests/s, one bundle at a time", [count / single_s], [count / copied_s], "no aim"),
        Row("requests/s, with checkpoints", [count / stored_s], [count / copied_and_stored_s], "no aim"),
    ]
    show(f"Ingest: bundles of {count:,} requests, per second of one processor", "DuckDB, read_parquet", rows)


_AIM = f"{AIM_REQUESTS_PER_S} requests/s"


def _copied(file: Path, groups: list[list[Path]]) -> tuple[float, float]:
    """Return the seconds of a bundle in which DuckDB copies its requests into a table, without and with checkpoint."""
    paths = [[str(folder / REQUESTS_FILE) for folder in group] for group in groups]
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(f"ATTACH '{file}' AS plain (RECOVERY_MODE no_wal_writes)")
        connection.execute("USE plain")
        connection.execute("CREATE TABLE requests AS SELECT * FROM read_parquet(?) LIMIT 0", [paths[0]])

        def copy(repeat: int) -> None:
            connection.execute("INSERT INTO requests SELECT * FROM read_parquet(?)", [paths[repeat]])

        def copy_and_store(_: int) -> None:
            for repeat in range(len(paths)):
                copy(repeat)
            connection.execute("CHECKPOINT")

        copied_s = least_processor_s(copy, len(paths))
        connection.execute("CHECKPOINT")
        stored_s = least_processor_s(copy_and_store, 1)
    return copied_s / len(paths[0]), stored_s / sum(map(len, paths))
