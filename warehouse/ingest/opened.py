"""Records on disk what the ingester reads, so that a bundle which kills the process is left out after its restart.

A bundle may need more memory than there is: the process is ended then, and would be at each start. So before bundles
are read, a file notes that the process died with them, and it is corrected once they were read. What a dead process
left in it is tried again alone, because the others of its batch, or a power cut, may have been the reason.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from warehouse.bundles.pending import fsync

OPENED_FILE = "ingesting.json"
#: After this many deaths, the last of them alone, a bundle or a job is left out.
MOST_DEATHS = 2


class Opened:
    """Counts how often a process died while it read a bundle (by path) or judged a job (by id)."""

    def __init__(self, home: Path, bundles: Path) -> None:
        self._file = home / OPENED_FILE
        self._deaths = {path: deaths for path, deaths in self._read().items() if (bundles / path).exists()}

    def is_suspect(self, path: str) -> bool:
        """Return whether a process died while reading this bundle or job, which is then tried alone."""
        return path in self._deaths

    def left_out(self) -> dict[str, str]:
        """Return the bundles and jobs that are left out, each with the reason."""
        return {path: self._reason(deaths) for path, deaths in self._deaths.items() if deaths >= MOST_DEATHS}

    @contextlib.contextmanager
    def reading(self, paths: Iterable[str]) -> Iterator[None]:
        """Mark bundles or jobs as being read until the block ends. An exception does not count as a death."""
        read = list(paths)
        self._write(self._deaths | {path: self._deaths.get(path, 0) + 1 for path in read})
        try:
            yield
        finally:
            self._deaths = {path: deaths for path, deaths in self._deaths.items() if path not in read}
            self._write(self._deaths)

    def _reason(self, deaths: int) -> str:
        return (
            f"the process that reads bundles ended {deaths} times while it read this, perhaps for lack of memory "
            "(DRAFTHOUSE_INGESTER_MEMORY_MIB), so it is left out: to try it again, delete "
            f"{self._file.absolute()} and start the ingester again"
        )

    def _read(self) -> dict[str, int]:
        try:
            deaths = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        return deaths if isinstance(deaths, dict) else {}

    def _write(self, deaths: dict[str, int]) -> None:
        """Replace the file; without deaths there is none. Raises OSError."""
        if not deaths:
            self._file.unlink(missing_ok=True)
            return
        writing = self._file.with_name(f".{OPENED_FILE}.writing")
        writing.write_text(json.dumps(deaths), encoding="utf-8")
        fsync(writing)
        writing.rename(self._file)
        fsync(self._file.parent)
