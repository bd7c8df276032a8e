"""Prints what happened in each case of `make test-fleet`."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    for state in ("passed", "failed"):
        for report in terminalreporter.getreports(state):
            for name, value in report.user_properties:
                if name == "fleet":
                    terminalreporter.write_line(f"{state}  {value}")
