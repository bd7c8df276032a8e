"""The sample files as the importers read them, each folder once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from interchange.files import read_paths
from interchange.reading import ReadRuns, read_runs
from tests.interchange.sample_files import SAMPLES
from warehouse.bundles.imported_run import ImportedRun


@cache
def folder(name: str) -> ReadRuns:
    return read_runs(read_paths([SAMPLES / name]))


@cache
def file(name: str) -> ReadRuns:
    """The file alone, without what lies beside it."""
    return read_runs(read_paths([SAMPLES / name]))


def run(name: str) -> ImportedRun:
    """The run of a sample, with what lies beside it; "#2" for the second in a file."""
    path, _, number = name.partition("#")
    alone = "guidellm/", "vllm-bench"
    imported = file(path) if path.startswith(alone) else folder(str(Path(path).parent))
    matching = [imported_run for imported_run in imported.runs if imported_run.source.name.endswith(path)]
    return matching[int(number or 1) - 1]
