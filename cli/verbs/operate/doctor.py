"""`drafthouse doctor`: the report of `services.doctor` as a table."""

from __future__ import annotations

from dataclasses import asdict

from cli.arguments import AsJson
from cli.output import print_json, print_table
from host.settings import load_settings
from services.doctor import examine


def doctor(*, as_json: AsJson = False) -> None:
    """Check what is installed and running, and say how to fix what is missing.

    Exit status 1 if anything is missing.
    """
    findings = examine(load_settings())
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = [("ok" if f.ok else "MISSING", f.what, f.found, f.remedy) for f in findings]
        print_table(("", "what", "found", "what to do"), rows)
    raise SystemExit(0 if all(finding.ok for finding in findings) else 1)
