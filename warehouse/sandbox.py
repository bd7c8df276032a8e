"""A user's own SQL, answered by a child process that can be stopped: DuckDB alone cannot be.

The child (`warehouse.sandbox_child`) opens the published file read-only, without files, network or extensions, runs
exactly one statement that only reads, and has a limit on its memory. This side kills it when its time is up.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lab.errors import QueryError, UserError
from warehouse import revisions
from warehouse.as_of import attaching
from warehouse.settings import Settings

#: Rows given back at most, unless the caller asks for more.
MAX_ROWS = 10_000
#: The child's own need beside the user's: the interpreter, DuckDB and Arrow reserve about this much address space.
BASE_MEMORY_MIB = 1536
#: The child's `warehouse` is this one, wherever that lies, and nothing else of the environment's is imported.
_CHILD = (
    "import sys; sys.path.insert(0, sys.argv[1]); from warehouse import sandbox_child; sys.exit(sandbox_child.main())"
)


@dataclass(frozen=True)
class SqlResult:
    """What a statement gave. `truncated`: there were more rows than were asked for."""

    table: pa.Table
    truncated: bool

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.table.column_names)

    def rows(self) -> list[list[object]]:
        """The rows as JSON takes them: moments, decimals and bytes as text, NaN and infinity as None."""
        columns = [self.table.column(place).to_pylist() for place in range(self.table.num_columns)]
        return [[_plain(value) for value in row] for row in zip(*columns, strict=True)]


def run_sql(settings: Settings, sql: str, max_rows: int = MAX_ROWS) -> SqlResult:
    """Run one reading statement on the published warehouse. Raises QueryError with DuckDB's own words.

    It is killed after settings.sql_timeout_s, and may use settings.sql_memory_mib. Within `warehouse.as_of.as_of` it
    sees the warehouse as of that moment.
    """
    if not settings.warehouse_file.exists():
        raise UserError(f"there is no warehouse in {settings.home.absolute()} yet: run `{revisions.MIGRATE_COMMAND}`")
    request = {
        "attaching": attaching(str(settings.warehouse_file.absolute())),
        "sql": sql,
        "max_rows": max_rows,
        "memory_mib": settings.sql_memory_mib,
        "address_space_mib": settings.sql_memory_mib + BASE_MEMORY_MIB,
    }
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _CHILD, str(Path(__file__).parents[1])],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=settings.sql_timeout_s,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise QueryError(
            f"stopped after {settings.sql_timeout_s:g} s: ask for less, or raise DRAFTHOUSE_SQL_TIMEOUT_S"
        ) from None
    return _answer(settings, done)


def _answer(settings: Settings, done: subprocess.CompletedProcess[bytes]) -> SqlResult:
    """The child ends with 0 and an Arrow stream, with 3 and DuckDB's words, or otherwise where it ran out of memory."""
    if done.returncode == 3:
        raise QueryError(done.stdout.decode(errors="replace"))
    if done.returncode != 0:
        raise QueryError(
            f"ran out of memory (more than {settings.sql_memory_mib} MiB): ask for less, "
            "or raise DRAFTHOUSE_SQL_MEMORY_MIB"
        )
    with pa.ipc.open_stream(done.stdout) as stream:
        table = stream.read_all()
    return SqlResult(table, table.schema.metadata[b"truncated"] == b"1")


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if value - value == 0 else None  # NaN and infinity differ from themselves so
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value.hex() if isinstance(value, bytes) else str(value)
