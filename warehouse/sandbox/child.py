"""The process that runs a user's SQL, see `warehouse.sandbox.runner`. It imports little: each query waits for it.

It sets limits of the operating system for itself, whatever DuckDB allows. Each works on its own: if DuckDB tries to
read a file or to grow past its limit, the system refuses.
"""

from __future__ import annotations

import bisect
import contextlib
import itertools
import json
import os
import re
import sys
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

from warehouse.sandbox.limits import end_with, forbid_opening, limit_memory, limit_time
from warehouse.sandbox.system_calls import READING, CannotConfineError, confine

#: EXPLAIN, ANALYZE, (FORMAT JSON) and a comment or two may come before the explained statement.
_MOST_EXPLAIN_TOKENS = 20
#: Functions that take addresses in this process's memory, where they read rows or call code; and one that runs a
#: statement written as JSON, in which any number may be an address.
BY_ADDRESS = frozenset(
    {"arrow_scan", "arrow_scan_dumb", "pandas_scan", "python_map_function", "seq_scan", "json_execute_serialized_sql"}
)
#: The name of each function in a statement as JSON: quotes inside its texts have a backslash before them.
_CALLED = re.compile(r'"function_name":"([^"\\]*)"')
#: The function query with a constant text, which is the statement that it runs.
_QUERY, _QUERY_OF_TEXT = (
    "query",
    re.compile(
        r'"function_name":"query",[^\[]*\[\{"class":"CONSTANT"[^{}]*"value":\{"type":\{"id":"VARCHAR"[^{}]*\},'
        r'"is_null":false,"value":("(?:[^"\\]|\\.)*+")\}\}\]'
    ),
)
_MOST_COLUMNS = 2_000
_MOST_ERROR_CHARACTERS = 2_000
#: Values within lists and structures: a bit each in Arrow, an object of 50 to 200 bytes each in the page.
_MOST_NESTED = 200_000
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
    "temp_directory": "",
    "threads": 1,
}
#: The text in DuckDB's error when open() is refused after `forbid_opening`.
NOTHING_OPENS = os.strerror(24)  # EMFILE
#: Address space beyond the user's memory: reserved but unused stacks and pools, and the serialised answer.
_ROOM_MIB = 256


def answer(
    attaching: list[str],
    sql: str,
    *,
    parameters: dict[str, str],
    archive: str,
    max_rows: int,
    max_bytes: int,
    memory_mib: int,
) -> pa.Table:
    """Return the first rows, as many as fit; the schema's metadata says what cut it, `rows`, `bytes` or `values`.

    `parameters` are values of the statement's `$name`s, as text. Raises duckdb.Error.

    The statements `attaching` are ours and attach the warehouse; `archive` is the folder of its archive.
    """
    connection = _opened(attaching, memory_mib)
    _shut(connection, memory_mib, _archived(connection, archive))
    _refuse_others(connection, sql)
    reader = connection.execute(sql, _given(connection, sql, parameters)).to_arrow_reader(1024)
    if len(reader.schema) > _MOST_COLUMNS:
        raise duckdb.InvalidInputException(
            f"the answer has {len(reader.schema):,} columns: select at most {_MOST_COLUMNS:,}"
        )
    return _first(reader, max_rows, max_bytes)


def _opened(attaching: list[str], memory_mib: int) -> duckdb.DuckDBPyConnection:
    """Open a database in memory with the warehouse attached read-only."""
    connection = duckdb.connect(":memory:", config={**_SETTINGS, "memory_limit": f"{memory_mib}MiB"})
    connection.execute("SET TimeZone = 'UTC'")
    # It takes `python -c` for an interactive session, and would draw a bar once a statement takes two seconds.
    connection.execute("SET enable_progress_bar = false")
    # DuckDB counts a long text in it as 16 bytes, so by default it would prepare a gigabyte that is never read.
    connection.execute("SET streaming_buffer_size = '1KiB'")
    for statement in attaching:
        connection.execute(statement)
    return connection


def _archived(connection: duckdb.DuckDBPyConnection, folder: str) -> list[str]:
    """Return the files that the view request_records reads."""
    query = "SELECT database_name FROM duckdb_tables() WHERE table_name = 'archived_runs'"
    (database,) = connection.execute(query).fetchone() or (None,)
    if database is None:  # it is of another revision
        return []
    found = connection.execute(f"SELECT DISTINCT file FROM {database}.main.archived_runs").fetchall()  # noqa: S608 - a name of ours
    return [f"{folder}/{file}" for (file,) in found]


def _shut(connection: duckdb.DuckDBPyConnection, memory_mib: int, readable: list[str]) -> None:
    """Forbid opening, setting and writing anything, by DuckDB's settings, by the operating system's limits, and by a
    list of allowed system calls where the kernel has such lists.

    Only the `readable` files can be opened. The system's limit is then on the number of open files.
    """
    connection.execute(f"SET allowed_paths = {readable}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    connection.execute("BEGIN TRANSACTION READ ONLY")
    limit_memory(memory_mib + _ROOM_MIB)
    forbid_opening(excluding=2 * len(readable))
    with contextlib.suppress(CannotConfineError):
        confine(READING, ends=False)  # an error of DuckDB's is a sentence, a process that was ended is none


def _refuse_others(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse what is not one reading statement, before anything runs; DESCRIBE, SHOW and SUMMARIZE are SELECTs to
    DuckDB.
    """
    statements = connection.extract_statements(sql)
    if len(statements) == 2 and not statements[0].query:  # DuckDB's own, which finds the columns of a PIVOT
        raise duckdb.InvalidInputException(
            "PIVOT without its columns would create a type: write PIVOT ... ON column IN ('a', 'b')"
        )
    if len(statements) != 1:
        raise duckdb.InvalidInputException(f"one statement at a time: this text has {len(statements)}")
    run = statements[0]
    while run.type == duckdb.StatementType.EXPLAIN:
        run = _explained(connection, run.query)
    if (kind := run.type) != duckdb.StatementType.SELECT:
        name = kind.name.replace("_", " ")
        raise duckdb.InvalidInputException(
            f"the warehouse is read-only here: {name if name != '???' else 'this statement'} is not allowed; SELECT, "
            "DESCRIBE, SHOW, SUMMARIZE and EXPLAIN are"
        )
    _refuse_addresses(connection, run.query)


def _refuse_addresses(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse a SELECT that calls a function of BY_ADDRESS, also in the text of a `query(...)`: binding it already calls
    code at that address.
    """
    quoted = sql.replace("'", "''")  # not a parameter: with the first of those DuckDB would import pandas
    (tree,) = connection.execute(f"SELECT json_serialize_sql('{quoted}')").fetchone() or ("",)
    if not tree.startswith('{"error":false'):
        raise duckdb.InvalidInputException("this statement cannot be checked: write it as a plain SELECT")
    called = [name.lower() for name in _CALLED.findall(tree)]
    if refused := BY_ADDRESS.intersection(called):
        raise duckdb.InvalidInputException(f"{min(refused)} is not allowed: it could reach any part of the memory")
    texts = [json.loads(text) for text in _QUERY_OF_TEXT.findall(tree)]
    if called.count(_QUERY) != len(texts):
        raise duckdb.InvalidInputException("query(...) takes one text here, not an expression")
    for text in texts:
        try:
            inner = connection.extract_statements(text)
        except duckdb.Error:
            continue  # the function itself says what is wrong
        if len(inner) == 1 and inner[0].type == duckdb.StatementType.SELECT:  # it refuses all others
            _refuse_addresses(connection, inner[0].query)


def _given(connection: duckdb.DuckDBPyConnection, sql: str, parameters: dict[str, str]) -> dict[str, str]:
    """Return the values that the statement asks for: those of others in the address are left out."""
    names = connection.extract_statements(sql)[0].named_parameters
    if missing := sorted(names - parameters.keys()):
        raise duckdb.InvalidInputException(f"give a value for ${', $'.join(missing)}")
    return {name: parameters[name] for name in names}


def _explained(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    """Return the statement that EXPLAIN ANALYZE runs: the first tail of the text that parses."""
    text = sql.encode()
    for offset, _ in duckdb.tokenize(sql)[1:_MOST_EXPLAIN_TOKENS]:
        try:
            inner = connection.extract_statements(text[offset:].decode())
        except duckdb.Error:
            continue
        if len(inner) == 1:
            return inner[0]
    raise duckdb.InvalidInputException("EXPLAIN must be followed by one SELECT: this statement is not understood")


def _first(reader: pa.RecordBatchReader, max_rows: int, max_bytes: int) -> pa.Table:
    """Return the first rows within all limits; `cut` in the metadata names the limit that cut them, or is empty."""
    batches: list[pa.RecordBatch] = []
    rows, room, nested, cut = 0, max_bytes, _MOST_NESTED, b""
    for batch in reader:
        by_bytes = _rows_within(batch, room, lambda part: part.nbytes)
        by_values = _rows_within(batch, nested, _nested_values)
        fitting = batch.slice(0, min(by_bytes, by_values))
        batches.append(fitting)
        rows, room, nested = rows + fitting.num_rows, room - fitting.nbytes, nested - _nested_values(fitting)
        if fitting.num_rows < batch.num_rows:
            cut = b"values" if by_values < by_bytes else b"bytes"
        cut = b"rows" if rows > max_rows else cut
        if cut:
            break
    if cut and not rows:
        most = f"{_MOST_NESTED:,} values" if cut == b"values" else f"{max_bytes / 2**20:g} MiB"
        raise duckdb.InvalidInputException(f"one row is larger than {most}, the limit of an answer: select less of it")
    table = pa.Table.from_batches(batches, schema=reader.schema).slice(0, max_rows)
    return table.rename_columns(_named_apart(table.column_names)).replace_schema_metadata({b"cut": cut})


def _rows_within(batch: pa.RecordBatch, room: int, size: Callable[[pa.RecordBatch], int]) -> int:
    """Return how many of the first rows have a size of at most `room`."""
    return bisect.bisect_right(range(1, batch.num_rows + 1), room, key=lambda rows: size(batch.slice(0, rows)))


def _nested_values(batch: pa.RecordBatch) -> int:
    """Return the values within lists, structures and maps."""
    return sum(_values(column) for column in batch.columns if pa.types.is_nested(column.type))


def _values(column: Any) -> int:
    kind, count = column.type, len(column)
    if not pa.types.is_nested(kind):
        return count
    if pa.types.is_fixed_size_list(kind):
        inner = [column.values.slice(column.offset * kind.list_size, count * kind.list_size)]
    elif pa.types.is_struct(kind) or pa.types.is_union(kind):
        inner = [column.field(index) for index in range(kind.num_fields)]
    else:  # not `flatten`, which imports more, and nothing can be opened any more
        first, end = column.offsets[0].as_py(), column.offsets[count].as_py()
        inner = [column.values.slice(first, end - first)]
    return count + sum(map(_values, inner))


def _named_apart(columns: list[str]) -> list[str]:
    """Make duplicate names unique, as JSON and data frames need: a second `a` becomes `a_1`, as in a subquery."""
    names: list[str] = []
    for column in columns:
        numbered = (f"{column}_{number}" for number in itertools.count(1))
        free = (name for name in numbered if name not in columns and name not in names)
        names.append(next(free) if column in names else column)
    return names


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def _sentence(error: Exception, memory_mib: int) -> str:
    """Return DuckDB's message, or our own if its advice would not work, because settings are locked."""
    text = str(error).partition("\n\nStack Trace")[0]
    if isinstance(error, (MemoryError, duckdb.OutOfMemoryException)):
        return f"ran out of memory (more than {memory_mib} MiB): select less, or raise DRAFTHOUSE_SQL_MEMORY_MIB"
    if NOTHING_OPENS in text:
        return "files cannot be read here: use the warehouse's own tables (SHOW TABLES lists them)"
    if isinstance(error, pa.ArrowException):
        return f"the answer cannot be returned ({text[:200]}): select columns of simpler types"
    return text if len(text) <= _MOST_ERROR_CHARACTERS else f"{text[:_MOST_ERROR_CHARACTERS]} ..."


def main(output: int) -> int:
    """Write an Arrow stream to the descriptor `output` and return 0, or write the error and return 3."""
    request = json.load(sys.stdin)
    end_with(request.pop("parent"))
    limit_time(request.pop("timeout_s"))
    status = 0
    try:
        written = _written(answer(**request))
    except (duckdb.Error, pa.ArrowException, MemoryError) as error:
        status, written = 3, _sentence(error, request["memory_mib"]).encode(errors="replace")
    with open(output, "wb") as pipe:
        pipe.write(written)
    return status
