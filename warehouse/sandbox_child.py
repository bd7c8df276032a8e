"""The process that runs a user's SQL; see `warehouse.sandbox`. It imports nothing of ours: nothing to wait for."""

from __future__ import annotations

import json
import resource
import sys

import duckdb
import pyarrow as pa

#: Statements that only read. Several in one string, or any other kind, are refused before anything runs.
_READING = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
    "threads": 1,
}


def answer(attaching: list[str], sql: str, max_rows: int, memory_mib: int) -> pa.Table:
    """Up to `max_rows` rows; whether there were more stands in the schema's metadata. Raises duckdb.Error.

    The statements `attaching` are ours, and make the warehouse that is asked.
    """
    connection = duckdb.connect(":memory:", config={**_SETTINGS, "memory_limit": f"{memory_mib}MiB"})
    connection.execute("SET TimeZone = 'UTC'")
    for statement in attaching:
        connection.execute(statement)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    _refuse_others(connection, sql)
    reader = connection.execute(sql).to_arrow_reader(1024)
    batches: list[pa.RecordBatch] = []
    while sum(batch.num_rows for batch in batches) <= max_rows and (batch := _next(reader)) is not None:
        batches.append(batch)
    found = pa.Table.from_batches(batches, schema=reader.schema)
    truncated = b"1" if found.num_rows > max_rows else b"0"
    return found.slice(0, max_rows).replace_schema_metadata({b"truncated": truncated})


def _refuse_others(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise duckdb.InvalidInputException(f"one statement at a time, please: this is {len(statements)}")
    if statements[0].type not in _READING:
        kind = statements[0].type.name
        raise duckdb.InvalidInputException(f"the warehouse is only read here: {kind} is not allowed, SELECT is")


def _next(reader: pa.RecordBatchReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def main() -> int:
    """Give back 0 with an Arrow stream on standard output, or 3 with what is wrong as text."""
    request = json.load(sys.stdin)
    limit = request.pop("address_space_mib") * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        table = answer(**request)
    except (duckdb.Error, pa.ArrowException) as error:
        sys.stdout.write(str(error))
        return 3
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    sys.stdout.buffer.write(sink.getvalue())
    return 0


if __name__ == "__main__":
    sys.exit(main())
