"""`drafthouse archive`."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from cli.lab import ready_settings
from cli.output import print_text
from lab.errors import UserError
from warehouse.ingest.archive import archive as archive_requests
from warehouse.ingest.archive import old_months
from warehouse.queries.connect import open_warehouse


def archive(
    *,
    older_than: Annotated[str, typer.Option(help="Age of the runs in days: 90d.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Move nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Move the requests of old runs out of the warehouse's file into Parquet files; SQL reads them as before."""
    settings, before = ready_settings(), datetime.now(UTC) - _age(older_than)
    with open_warehouse(settings.warehouse_file) as connection:
        months = old_months(connection, before)
    if not months:
        print_text(f"no run that began before {before:%Y-%m-%d} has requests in the warehouse's file")
        return
    for month in months:
        print_text(f"{month.month}: {month.requests:,} requests of {month.runs:,} runs")
    if dry_run:
        print_text(f"would be moved to {settings.archive_dir.absolute()}")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise UserError("nothing is moved unless you agree: run this in a terminal, or add --yes")
        question = f"Move them to {settings.archive_dir.absolute()}? Nothing is deleted, and bundles stay as they are"
        typer.confirm(question, abort=True)
    size_before = settings.warehouse_file.stat().st_size
    moved = archive_requests(settings, before)
    sizes = f"{size_before / 1e6:,.1f} MB before, {settings.warehouse_file.stat().st_size / 1e6:,.1f} MB after"
    print_text(f"moved {sum(month.requests for month in moved):,} requests; the warehouse's file has {sizes}")


def _age(text: str) -> timedelta:
    days = re.fullmatch(r"(\d{1,5})d", text)
    if days is None:
        raise UserError(f"--older-than takes a number of days such as 90d, not {text!r}")
    return timedelta(days=int(days[1]))
