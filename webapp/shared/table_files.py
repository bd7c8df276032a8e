"""A table as a file that says what it is. Pure."""

from __future__ import annotations

import io

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from webapp.shared.about import About

_KEY = b"drafthouse"


def csv(frame: pd.DataFrame, about: About) -> bytes:
    """Comma-separated values in UTF-8, under lines that begin with `#` (pandas: `comment="#"`; DuckDB finds them)."""
    told = "".join(f"# {_one_line(line)}\n" for line in (about.title, *about.lines))
    return (told + frame.to_csv(index=False)).encode()


def parquet(frame: pd.DataFrame, about: About) -> bytes:
    """With the same lines in the file's metadata, under the key `drafthouse`."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    told = "\n".join((about.title, *about.lines))
    metadata = {**(table.schema.metadata or {}), _KEY: told.encode()}
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), sink)
    return sink.getvalue()


def _one_line(text: str) -> str:
    return " ".join(text.split())
