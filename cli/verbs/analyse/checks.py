"""`drafthouse checks`: the validity checks."""

from __future__ import annotations

from cli.arguments import AsJson
from cli.output import print_json, print_table
from lab import validity
from lab.validity.table import declarations


def checks(*, as_json: AsJson = False) -> None:
    """List the validity checks that judge every run, with thresholds and advice."""
    if as_json:
        print_json(declarations())
    else:
        rows = [(check.name, check.severity, check.threshold, check.advice) for check in validity.ALL]
        print_table(("check", "severity", "fires", "what to do"), rows)
