"""Files of other tools made up by a test, and what is read from them."""

from __future__ import annotations

import json

from interchange.files import ForeignFile
from interchange.reading import ReadRuns, read_runs
from warehouse.bundles.imported_run import ImportedRun


def imported(value: object, name: str = "result.json") -> ReadRuns:
    """Read one file: this text, or this value as JSON."""
    content = value if isinstance(value, str) else json.dumps(value)
    return read_runs([ForeignFile(name, content.encode())])


def only(value: object) -> ImportedRun:
    """Return the only run of such a file."""
    (run,) = imported(value).runs
    return run


def why(run: ImportedRun, field: str) -> str:
    """Return the reason why this field of the file became no number of the run."""
    return next(left.why for left in run.left_out if left.field == field)
