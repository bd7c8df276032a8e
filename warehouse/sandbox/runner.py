"""Run a user's own SQL in a child process, which can be stopped; DuckDB alone cannot be.

The child (`warehouse.sandbox.child`) opens the published file read-only, without files, network or extensions, runs
exactly one reading statement, and sets itself limits on its memory and time that the operating system enforces. This
side kills it when its time is up, and it is killed when this side ends. While a run is measured on this machine it has
the lowest priority.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from host import quiet
from host.settings import Settings
from lab.errors import MIGRATE_COMMAND, QueryError, UserError
from lab.roles import Actor, Change, may_any
from warehouse.queries.point_in_time import attaching
from warehouse.sandbox.measuring import measured_now

if TYPE_CHECKING:
    import pandas as pd

#: The most rows of an answer, unless the caller allows more.
MAX_ROWS = 10_000
#: The most bytes of an answer: as much as a browser and JSON can handle.
MAX_BYTES = 32 * 2**20
_WAIT_S = 0.2
_NO_PARAMETERS: Mapping[str, str] = {}
#: A parameter; or a text, a quoted name or a comment, in which a `$` begins no parameter.
_PARAMETERS = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\$(\w*)\$.*?\$\1\$|\$([A-Za-z_]\w*)""", re.DOTALL
)
MOST_CHARACTERS = 100_000
#: The child imports from this installation and its libraries alone. It runs at a lower priority than the pages: one
#: query may take all processors.
_CHILD = (
    "import os, sys; os.nice(5); sys.path[:0] = sys.argv[1:]; "
    "from warehouse.own_output import own_output; output = own_output(); "
    "from warehouse.sandbox import child; sys.exit(child.main(output))"
)
#: The same at the lowest priority, including the imports.
_YIELDING_CHILD = _CHILD.replace("from", "from host import priority; priority.lower_own_session(); from", 1)
#: What to do if a statement ran out of time.
_SELECT_LESS = "select less, or raise DRAFTHOUSE_SQL_TIMEOUT_S"
_ASK_AGAIN = f"Ask again when it has ended; else {_SELECT_LESS}"
_WAS_MEASURED = "a run was being measured on this host and had its processors first"


@dataclass(frozen=True)
class SqlResult:
    """The result of a statement. `left_out` is a sentence on why rows were cut; empty if none were."""

    table: pa.Table
    left_out: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.table.column_names)

    def rows(self) -> list[list[object]]:
        """Return the rows as JSON values: timestamps, decimals and bytes as text, NaN and infinity as None.

        Raises QueryError for a value that Python cannot represent, such as a day after the year 9999.
        """
        columns = [_convert(name, self.table.column(name), "to_pylist") for name in self.columns]
        return [[_plain(value) for value in row] for row in zip(*columns, strict=True)]


def as_frame(table: pa.Table) -> pd.DataFrame:
    """Return a data frame for charts and downloads. Raises QueryError as `SqlResult.rows` does."""
    import pandas as pd  # noqa: PLC0415 - `drafthouse sql` does without

    return pd.DataFrame({name: _convert(name, table.column(name), "to_pandas") for name in table.column_names})


def run_sql(
    settings: Settings,
    sql: str,
    max_rows: int = MAX_ROWS,
    while_waiting: Callable[[], object] = lambda: None,
    *,
    actor: Actor | None = None,
    parameters: Mapping[str, str] = _NO_PARAMETERS,
) -> SqlResult:
    """Run one reading statement on the published warehouse. Raises QueryError with DuckDB's message.

    `parameters`: values of the statement's `$name`s.

    The statement is killed after settings.sql_timeout_s, and may use settings.sql_memory_mib. Within
    `queries.point_in_time.as_of` it sees the warehouse as of that moment. `while_waiting` is called a few times per
    second; whatever it raises kills the statement. For an `actor` who may read it, there is a table `audit` too.
    """
    for text in (sql, *parameters.values()):
        _refuse_unreadable(text)
    if not settings.warehouse_file.exists():
        raise UserError(f"there is no warehouse in {settings.home.absolute()} yet: run `{MIGRATE_COMMAND}`")
    request = {
        "parent": os.getpid(),
        "attaching": [*attaching(str(settings.warehouse_file.absolute())), *_audit(settings, sql, actor)],
        "archive": str(settings.archive_dir.absolute()),
        "sql": sql,
        "parameters": dict(parameters),
        "max_rows": max_rows,
        "max_bytes": MAX_BYTES,
        "memory_mib": settings.sql_memory_mib,
        "timeout_s": settings.sql_timeout_s,
    }
    with quiet.announced_if_possible(settings.home, "question", "sql"):
        measures = quiet.under_way(settings.home, "window")

        def remedy() -> str:
            return f"{measured_now(settings) or _WAS_MEASURED}. {_ASK_AGAIN}" if measures else _SELECT_LESS

        code = _YIELDING_CHILD if measures else _CHILD
        done = _run_child(code, json.dumps(request).encode(), settings.sql_timeout_s, remedy, while_waiting)
    return _answer(done, settings.sql_memory_mib)


def parameters_of(sql: str) -> list[str]:
    """Return the names of the statement's parameters, such as `arm` of `WHERE arm = $arm`, in their order."""
    return list(dict.fromkeys(filter(None, (found[2] for found in _PARAMETERS.finditer(sql)))))


def asks_for_audit(sql: str, actor: Actor) -> bool:
    """Return whether the statement can mean the audit table, and the actor may read it."""
    return may_any(actor, Change.AUDIT) and re.search(r"\baudit\b", sql, re.IGNORECASE) is not None


def _audit(settings: Settings, sql: str, actor: Actor | None) -> list[str]:
    if actor is None or not asks_for_audit(sql, actor):
        return []
    from warehouse.app_db import audit  # noqa: PLC0415 - SQLAlchemy, which other questions do without
    from warehouse.app_db.engine import open_engine  # noqa: PLC0415 - likewise

    with open_engine(settings.app_database_url) as engine:
        return [audit.as_duckdb_table(engine)]


def _refuse_unreadable(sql: str) -> None:
    """Refuse a NUL, after which DuckDB ignores everything, and half of a surrogate pair, which cannot be sent."""
    if len(sql) > MOST_CHARACTERS:
        raise QueryError(f"the statement has {len(sql):,} characters: the limit is {MOST_CHARACTERS:,}")
    if (position := sql.find("\0")) >= 0:
        raise QueryError(f"character {position + 1:,} is a NUL: remove it")
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise QueryError(f"character {error.start + 1:,} is half of a surrogate pair, not text: remove it") from None


def _run_child(
    code: str, request: bytes, timeout_s: float, remedy: Callable[[], str], while_waiting: Callable[[], object]
) -> subprocess.CompletedProcess[bytes]:
    """Run the child to its end and return its output. However this ends, the child has ended too.

    `remedy` says what to do if the time is up.
    """
    command = [sys.executable, "-I", "-S", "-c", code, *_import_folders()]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        start_new_session=True,  # a process group of its own, which is killed as a whole
    ) as child:
        try:
            output, errors = _communicate(child, request, timeout_s, while_waiting)
        except BaseException as error:
            os.killpg(child.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise QueryError(f"stopped after {timeout_s:g} s: {remedy()}") from None
            raise
    return subprocess.CompletedProcess(command, child.returncode, output, errors)


def _import_folders() -> list[str]:
    """Return the folders of this installation, DuckDB and Arrow."""
    libraries = filter(None, (importlib.util.find_spec(name) for name in ("duckdb", "pyarrow")))
    folders = [Path(__file__).parents[2], *(Path(library.origin or "").parents[1] for library in libraries)]
    return list(dict.fromkeys(map(str, folders)))


def _communicate(
    child: subprocess.Popen[bytes], request: bytes, timeout_s: float, while_waiting: Callable[[], object]
) -> tuple[bytes, bytes]:
    deadline, unsent = time.monotonic() + timeout_s, [request]
    while True:
        left_s = deadline - time.monotonic()
        try:
            return child.communicate(unsent.pop() if unsent else None, max(0.0, min(_WAIT_S, left_s)))
        except subprocess.TimeoutExpired:
            if left_s <= _WAIT_S:
                raise
        while_waiting()


def _answer(done: subprocess.CompletedProcess[bytes], memory_mib: int) -> SqlResult:
    """Read the output of the child, which ends with 0 and an Arrow stream, with 3 and a sentence, or is killed."""
    if done.returncode == 3:
        raise QueryError(done.stdout.decode(errors="replace"))
    if (unknown := re.search(rb"Unsupported Arrow type (\w+)", done.stderr)) is not None:
        kind = unknown[1].decode()
        raise QueryError(f'a column of type {kind} cannot be shown as it is: select it as text, "column"::varchar')
    if done.returncode == 1:
        raise RuntimeError(f"the process that answers SQL failed:\n{done.stderr.decode(errors='replace')}")
    if done.returncode != 0:
        raise QueryError(
            f"the statement ended its process ({_ending(done.returncode)}): it needs more than "
            f"{memory_mib} MiB of memory (DRAFTHOUSE_SQL_MEMORY_MIB) or is nested too deeply. Select less"
        )
    with pa.ipc.open_stream(done.stdout) as stream:
        table = stream.read_all()
    _refuse_repeated_texts(table)
    return SqlResult(table, _left_out(table))


def _refuse_repeated_texts(table: pa.Table) -> None:
    """Refuse enums that would be too large once each row has its text: Arrow stores each text once."""
    if sum(_repeated_bytes(chunk) for column in table.columns for chunk in column.chunks) > MAX_BYTES:
        raise QueryError(f"the texts of enums in this answer would be over {MAX_BYTES / 2**20:g} MiB: select less")


def _repeated_bytes(values: Any) -> int:
    """Return the length of an array's enum texts, each counted as often as it occurs."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return int(pc.sum(pc.take(pc.binary_length(values.dictionary), values.indices)).as_py() or 0)
    if not _has_dictionary(kind):
        return 0
    if pa.types.is_map(kind):
        return _repeated_bytes(values.keys) + _repeated_bytes(values.items)
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return sum(_repeated_bytes(values.field(index)) for index in range(kind.num_fields))
    return _repeated_bytes(values.flatten())


def _has_dictionary(kind: Any) -> bool:
    within = (kind.field(index).type for index in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, within))


def _ending(status: int) -> str:
    return signal.Signals(-status).name if status < 0 else f"exit status {status}"


def _left_out(table: pa.Table) -> str:
    shown = f"only the first {table.num_rows:,} rows are shown: "
    more = {
        b"": "",
        b"rows": "there are more",
        b"bytes": f"more would exceed {MAX_BYTES / 2**20:g} MiB",
        b"values": "more would be too many values in lists and structures",
    }
    why = more[table.schema.metadata[b"cut"]]
    return why and shown + why


def _convert(name: str, column: pa.ChunkedArray[Any], how: Literal["to_pylist", "to_pandas"]) -> Any:
    try:
        return getattr(column, how)()
    except (OverflowError, ValueError, pa.ArrowNotImplementedError) as error:
        raise QueryError(
            f'the values of "{name}" cannot be shown as they are ({error}): select "{name}"::varchar'
        ) from None


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if value - value == 0 else None  # NaN and infinity minus themselves are NaN
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value.hex() if isinstance(value, bytes) else str(value)
