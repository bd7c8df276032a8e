"""`drafthouse pull`: a lab's warehouse as a file here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.arguments import AsJson
from cli.elsewhere import Client, fetching_bar, refusals
from cli.output import print_json, print_text
from host.settings import load_settings
from lab.errors import UserError

Url = Annotated[str | None, typer.Argument(help="Address of the lab; default: DRAFTHOUSE_SERVER.")]
To = Annotated[Path, typer.Option(help="The file to write.")]


def pull(url: Url = None, *, to: To = Path("warehouse.duckdb"), as_json: AsJson = False) -> None:
    """Fetch a lab's warehouse as a DuckDB file, if it changed.

    An interrupted download resumes; an existing file is replaced once the new one is complete and has the lab's digest.
    """
    settings = load_settings()
    address = url or settings.server
    if address is None:
        raise UserError("name the lab: `drafthouse pull https://lab.example.org`, or set DRAFTHOUSE_SERVER")
    with refusals(), fetching_bar() as progress:
        changed = Client(address, settings.token).pull(to, progress=progress)
    if as_json:
        print_json({"changed": changed, "to": str(to.absolute()), "bytes": to.stat().st_size})
    else:
        print_text(
            f"{to.absolute()} {'is new' if changed else 'has not changed'}, {to.stat().st_size / 2**20:,.1f} MiB"
        )
