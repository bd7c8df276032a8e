"""Exports that a stranger made: of invented runs, with ids of their choice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from interchange.restore import MANIFEST, MANIFEST_FORMAT, MANIFEST_VERSION
from tests.warehouse.runs import write_run
from warehouse.bundles.run_bundle import REQUESTS_FILE


def forged_export(
    folder: Path,
    job_id: str = "job-9",
    study_id: str = "0" * 64,
    run_ids: Sequence[str] = ("run-9",),
    change: Callable[[Path], None] = lambda _requests: None,
) -> Path:
    """Write an export of runs with these ids; `change` gets the file of each one's requests."""
    for number, run_id in enumerate(run_ids):
        bundle = write_run(folder / "bundles", run_id=run_id, job_id=job_id, study_id=study_id, repeat=number)
        change(bundle / REQUESTS_FILE)
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    digests = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    manifest = {"format": MANIFEST_FORMAT, "version": MANIFEST_VERSION, "files": digests}
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    return folder


def many_times(rows: int, text: str) -> Callable[[Path], None]:
    """Give a file of requests so many rows with this text, which a dictionary makes small on disk."""

    def change(path: Path) -> None:
        table = pq.read_table(path).replace_schema_metadata(None)
        table = pa.concat_tables([table.slice(0, 1)] * rows)
        place = table.column_names.index("output_text")
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
        table = table.set_column(place, pa.field("output_text", texts.type), texts)
        options: dict[str, Any] = {"store_schema": False, "write_statistics": False, "compression": "zstd"}
        options |= {"use_dictionary": ["output_text"], "dictionary_pagesize_limit": 2**26}
        pq.write_table(table, path, **options)

    return change


def understated(text: str) -> Callable[[Path], None]:
    """Give a file of requests one row with this text, and let it state that its pages are small."""

    def change(path: Path) -> None:
        table = pq.read_table(path).replace_schema_metadata(None).slice(0, 1)
        place = table.column_names.index("output_text")
        table = table.set_column(place, "output_text", pa.array([text]))
        options: dict[str, Any] = {"store_schema": False, "write_statistics": False, "compression": "zstd"}
        pq.write_table(table, path, use_dictionary=False, **options)
        group = pq.ParquetFile(path).metadata.row_group(0)
        stated = {group.total_byte_size, group.column(place).total_uncompressed_size}
        content = bytearray(path.read_bytes())
        length = int.from_bytes(content[-8:-4], "little")
        footer = bytes(content[-8 - length : -8])
        for number in stated:
            footer = footer.replace(_varint(number), _varint(100, len(_varint(number))))
        content[-8 - length : -8] = footer
        path.write_bytes(content)

    return change


def _varint(number: int, length: int = 0) -> bytes:
    """A number as Parquet's footer has it, with needless bytes until it has this length."""
    groups = [number << 1 & 127]
    number >>= 6
    while number or len(groups) < length:
        groups.append(number & 127)
        number >>= 7
    return bytes([*(group | 128 for group in groups[:-1]), groups[-1]])
