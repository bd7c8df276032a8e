"""`drafthouse sql`: one query on the published warehouse."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cli.arguments import AsJson
from cli.home import ready_settings
from cli.output import print_json, print_table
from jobs.access.local import local_actor
from warehouse.sandbox.runner import run_sql


def sql(
    query: Annotated[str, typer.Argument(help='One statement, for example "select * from results".')],
    *,
    as_json: AsJson = False,
) -> None:
    """Query the published warehouse; a query cannot change it."""
    answer = run_sql(ready_settings(), query, actor=local_actor())
    rows = answer.rows()
    if as_json:
        print_json([dict(zip(answer.columns, row, strict=True)) for row in rows])
    else:
        print_table(answer.columns, rows)
    if answer.truncated:
        sys.stderr.write(f"drafthouse: {answer.left_out}: add a limit or aggregate\n")
