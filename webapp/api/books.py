"""Prices of hardware, datasets, and figures that others published."""

from __future__ import annotations

import re
import tempfile
from dataclasses import asdict
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from anyio import to_thread
from fastapi import APIRouter, Body, Query, Request
from fastapi import Path as InPath
from pydantic import BaseModel, Field

from interchange.files import LARGEST_IMPORT_BYTES
from jobs.datasets.listing import DatasetState, add_dataset, list_datasets, remove_dataset
from jobs.datasets.registry import NAME
from lab.errors import UnknownNameError, UserError
from lab.roles import Change
from warehouse.app_db import price_book
from warehouse.app_db.price_book import Entry
from warehouse.queries import published as queries
from warehouse.queries.connect import open_warehouse
from warehouse.queries.rows import dicts
from webapp.api.calls import AuthorisedCall, Call
from webapp.api.limits import READING_FILES, Operation, takes

router = APIRouter(route_class=Operation, tags=["books"])
Amount = Annotated[float | None, Field(gt=0, le=1e12)]
Text = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]*$")]
_FILE_NAME = re.compile(r"\w[\w. -]{0,99}")
DatasetName = Annotated[str, InPath(pattern=f"^{NAME.pattern}$")]


class SentPrice(BaseModel):
    """The price of an hour of hardware: rented, or owned."""

    hardware: Text
    source: Text
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$")
    rented_per_hour: Amount = None
    purchase_price: Amount = None
    lifetime_years: Amount = None
    utilisation: Annotated[float | None, Field(gt=0, le=1)] = None
    electricity_per_kwh: Amount = None
    valid_from: date | None = Field(default=None, description="The first day of this price; today if it is missing.")


class PriceDocument(BaseModel):
    """An entry of the price book."""

    price_id: int
    price: dict[str, Any]
    per_hour: float
    added_at: datetime
    withdrawn_at: datetime | None


@router.get("/prices")
def list_prices(call: AuthorisedCall) -> list[PriceDocument]:
    """List every entry, including withdrawn ones, in the order of addition."""
    return [_price_document(entry) for entry in price_book.entries(call.database)]


@router.post("/prices", status_code=201)
def add_price(call: AuthorisedCall, sent: Annotated[SentPrice, Body()]) -> PriceDocument:
    """Add a price; earlier prices stay in force for the days before it."""
    today = datetime.now(UTC).date()
    price = price_book.price_from(sent.model_dump() | {"valid_from": sent.valid_from or today})
    return _price(call, price_book.add(call.database, price, actor=call.actor))


@router.post("/prices/{number}/withdraw")
def withdraw_price(call: AuthorisedCall, number: Annotated[int, InPath(ge=0, le=2**31 - 1)]) -> PriceDocument:
    """Withdraw a price that was entered by mistake; it stays in the book, marked as withdrawn."""
    _price(call, number)
    price_book.withdraw(call.database, number, actor=call.actor)
    return _price(call, number)


@router.get("/datasets")
def list_all_datasets(call: AuthorisedCall) -> list[DatasetState]:
    """List Drafthouse's own datasets, then the registered ones."""
    return list_datasets(call.settings)


@router.put(
    "/datasets/{name}",
    status_code=201,
    openapi_extra={"requestBody": {"required": True, "content": {"application/octet-stream": {}}}},
)
@takes(LARGEST_IMPORT_BYTES, files_for=Change.DATASETS)
async def add_one_dataset(
    call: AuthorisedCall,
    name: DatasetName,
    request: Request,
    file: Annotated[str, Query(max_length=200, description="The file's own name.")] = "",
    *,
    replace: Annotated[bool, Query(description="Replace another file of this name.")] = False,
) -> DatasetState:
    """Check a file, which is the request's body, and register it under this name."""
    with tempfile.TemporaryDirectory() as folder:
        sent = Path(folder) / (file if _FILE_NAME.fullmatch(file) else name)
        with sent.open("wb") as opened:
            async for piece in request.stream():
                await to_thread.run_sync(opened.write, piece, limiter=READING_FILES)
        try:
            adding = partial(add_dataset, call.settings, name, sent, actor=call.actor, replace=replace)
            return await to_thread.run_sync(adding, limiter=READING_FILES)
        except UserError as error:
            raise UserError(str(error).replace(f"{folder}/", "")) from None


@router.delete("/datasets/{name}")
def remove_one_dataset(call: AuthorisedCall, name: DatasetName) -> list[DatasetState]:
    """Remove a registered dataset and delete its copy. Returns the remaining datasets."""
    remove_dataset(call.settings, name, actor=call.actor)
    return list_datasets(call.settings)


@router.get("/published")
def list_published(call: AuthorisedCall) -> list[dict[str, Any]]:
    """Return the sources of published figures, with the doubts about each."""
    with open_warehouse(call.settings.warehouse_file) as con:
        doubts = dicts(con, "SELECT source, sentence FROM published_doubts ORDER BY ALL")
        sources = dicts(con, "SELECT * FROM published_sources ORDER BY date, source")
    return [
        source | {"doubts": [doubt["sentence"] for doubt in doubts if doubt["source"] == source["source"]]}
        for source in sources
    ]


@router.get("/published/{source}")
def show_published(call: AuthorisedCall, source: Annotated[str, InPath(max_length=200)]) -> list[dict[str, Any]]:
    """Show the figures of one source as printed."""
    with open_warehouse(call.settings.warehouse_file) as con:
        queries.figures(con, source)  # raises QueryError for an unknown one
        return dicts(con, "SELECT * FROM published_results WHERE source = ? ORDER BY number", [source])


def _price(call: Call, number: int) -> PriceDocument:
    for entry in price_book.entries(call.database):
        if entry.price_id == number:
            return _price_document(entry)
    raise UnknownNameError(f"there is no price {number}")


def _price_document(entry: Entry) -> PriceDocument:
    values = asdict(entry) | {"price": entry.price.model_dump(mode="json"), "per_hour": entry.price.per_hour}
    return PriceDocument.model_validate(values)
