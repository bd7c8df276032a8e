"""The report of the last `drafthouse verify` on this host, stored under the home for the Home page."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

_NAME, _TEXT_NAME = "verification.json", "verification.md"


@dataclass(frozen=True)
class Finding:
    """One line of a report on the host. `remedy` is what to do if `ok` is False."""

    what: str
    ok: bool
    found: str
    remedy: str = ""


@dataclass(frozen=True)
class HostReport:
    """The findings, their time, and the job of the measured study; None if none could be measured."""

    at: datetime
    job_id: str | None
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        return all(finding.ok for finding in self.findings)


def write_report(home: Path, report: HostReport) -> None:
    """Replace the last report atomically."""
    writing = home / f".{_NAME}"
    with writing.open("wb") as file:
        file.write(TypeAdapter(dict).dump_json(asdict(report), indent=1))
        file.flush()
        os.fsync(file.fileno())
    writing.replace(home / _NAME)


def write_text(home: Path, text: str) -> Path:
    """Store the readable report, atomically. Return its file."""
    writing, file = home / f".{_TEXT_NAME}", home / _TEXT_NAME
    writing.write_text(text, encoding="utf-8")
    writing.replace(file)
    return file


def last_report(home: Path) -> HostReport | None:
    """Return the last report; None if there is none that this version can read."""
    try:
        return TypeAdapter(HostReport).validate_json((home / _NAME).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
