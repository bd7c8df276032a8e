"""`drafthouse sql`: one query on the published warehouse."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.arguments import AsJson
from cli.lab import the_lab
from cli.output import print_error, print_json, print_table


def sql(
    query: Annotated[str, typer.Argument(help='One statement, for example "select * from results".')],
    *,
    as_json: AsJson = False,
) -> None:
    """Query the published warehouse; a query cannot change it."""
    answer = the_lab().sql(query)
    if as_json:
        print_json([dict(zip(answer.columns, row, strict=True)) for row in answer.rows])
    else:
        print_table(answer.columns, answer.rows)
    if answer.left_out:
        print_error(f"drafthouse: {answer.left_out}: add a limit or aggregate")
