"""`python -m cli` is `drafthouse`."""

from __future__ import annotations

from cli.app import main

main()
