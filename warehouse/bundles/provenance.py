"""The file `imported.json` of a bundle that was imported from another Drafthouse: who imported it, and from where.

A bundle with it counts as imported, not as measured here, and has the ids of the file, not those of its `run.json`,
which the sender chose. `restore` writes it into every bundle that it copies, so that whoever sends a bundle cannot
leave it out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from lab.errors import BundleError
from lab.study.cell_ids import digest
from lab.study.model_base import Frozen

PROVENANCE_FILE = "imported.json"
#: Names of labels that state a run's origin; a sender's own label of such a name is not stored.
LABELS = ("imported_by", "source_job", "source_run")
#: The beginning of the ids of jobs that were imported; no job of the queue has it.
JOB_PREFIX = "imported-"
_JOB_DIGITS = 20


class Provenance(Frozen):
    """The ids of an imported bundle in this lab, and where it came from."""

    format_version: Literal[1] = 1
    job_id: str
    run_id: str
    study_id: str
    imported_by: str
    source_job: str
    source_run: str

    @property
    def labels(self) -> dict[str, str]:
        return {name: getattr(self, name) for name in LABELS}


def provenance_of(importer: str, job_id: str, run_id: str, digests: dict[str, str]) -> Provenance:
    """Return the provenance of a run with files of these digests; importing it again gives the same.

    The runs of one job that one person imports become one job, into which nobody else can import.
    """
    study_id = digest({"imported_by": importer, "source_job": job_id})
    return Provenance(
        job_id=f"{JOB_PREFIX}{study_id[:_JOB_DIGITS]}",
        run_id=digest({"study_id": study_id, "source_run": run_id, "files": dict(digests)}),
        study_id=study_id,
        imported_by=importer,
        source_job=job_id,
        source_run=run_id,
    )


def read_provenance(folder: Path) -> Provenance | None:
    """Return the provenance of a bundle, None if it was not imported from a Drafthouse. Raises BundleError."""
    path = folder / PROVENANCE_FILE
    try:
        return Provenance.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise BundleError(f"{path} cannot be read: {error}") from None
