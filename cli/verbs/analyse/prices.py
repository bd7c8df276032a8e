"""`drafthouse prices`: the price book of hardware."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from cli.arguments import AsJson
from cli.lab import the_lab
from cli.output import print_json, print_table, print_text
from warehouse.app_db import price_book
from warehouse.app_db.price_book import Entry

app = typer.Typer(add_completion=False)


@app.callback(invoke_without_command=True)
def prices(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show and edit the price book: what an hour of hardware costs, by date.

    Withdrawn entries are in the JSON only.
    """
    if context.invoked_subcommand is not None:
        return
    entries = the_lab().prices()
    if as_json:
        more = ({"price": entry.price.model_dump(mode="json"), "per_hour": entry.price.per_hour} for entry in entries)
        print_json([asdict(entry) | shown for entry, shown in zip(entries, more, strict=True)])
        return
    rows = [_row(entry) for entry in entries if entry.withdrawn_at is None]
    if not rows:
        print_text("The price book is empty: add the price of your hardware with `drafthouse prices add`.")
        return
    print_table(("number", "hardware", "from", "per hour", "currency", "electricity per kWh", "source"), rows)


@app.command()
def add(
    hardware: Annotated[str, typer.Argument(help="Whole words of its name, as `drafthouse doctor` shows it.")],
    *,
    source: Annotated[str, typer.Option(help="Where the price comes from.")],
    currency: Annotated[str, typer.Option(help="A currency code of three letters.")] = "USD",
    per_hour: Annotated[float | None, typer.Option(help="If rented: price of an hour of all of it.")] = None,
    purchase_price: Annotated[float | None, typer.Option(help="If owned: what it cost.")] = None,
    lifetime_years: Annotated[float | None, typer.Option(help="If owned: years of use.")] = None,
    utilisation: Annotated[float | None, typer.Option(help="If owned: share of that time in use.")] = None,
    electricity_per_kwh: Annotated[float | None, typer.Option(help="Electricity, if not included.")] = None,
    valid_from: Annotated[
        datetime | None,
        typer.Option("--from", formats=["%Y-%m-%d"], help="The first day of this price; default: today."),
    ] = None,
) -> None:
    """Add a price; earlier prices stay in force for the days before it."""
    price = price_book.price_from(
        {
            "hardware": hardware,
            "source": source,
            "currency": currency,
            "rented_per_hour": per_hour,
            "purchase_price": purchase_price,
            "lifetime_years": lifetime_years,
            "utilisation": utilisation,
            "electricity_per_kwh": electricity_per_kwh,
            "valid_from": (valid_from or datetime.now(UTC)).date(),
        }
    )
    number = the_lab().add_price(price)
    print_text(
        f"price {number}: {price.hardware} at {price.per_hour:g} {price.currency} an hour from {price.valid_from}"
    )


@app.command()
def withdraw(number: Annotated[int, typer.Argument(help="As `drafthouse prices` lists it.")]) -> None:
    """Withdraw a price that was entered by mistake; it stays in the book, marked as withdrawn."""
    the_lab().withdraw_price(number)
    print_text(f"price {number} is withdrawn")


def _row(entry: Entry) -> tuple[object, ...]:
    price = entry.price
    electricity = price.electricity_per_kwh
    rate = (price.per_hour, price.currency, electricity, price.source)
    return (entry.price_id, price.hardware, price.valid_from, *rate)
