"""The price book in the app database: entries are added and withdrawn, never changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError

from lab import roles
from lab.cost import Price
from lab.errors import UserError
from lab.roles import Actor, Change
from warehouse.app_db import audit
from warehouse.app_db.engine import reading
from warehouse.app_db.schema import prices as prices_table

_OWNED = ("purchase_price", "lifetime_years", "utilisation")


@dataclass(frozen=True)
class Entry:
    """A price with its number in the book and the times when it was added and withdrawn."""

    price_id: int
    price: Price
    added_at: datetime
    withdrawn_at: datetime | None


def entries(engine: sa.Engine) -> list[Entry]:
    """Return every entry, withdrawn ones too, in the order they were added."""
    query = sa.select(prices_table).order_by(prices_table.c.price_id)
    with reading(engine).connect() as connection:
        return [_entry(row) for row in connection.execute(query).mappings()]


def add(engine: sa.Engine, price: Price, *, actor: Actor) -> int:
    """Add an entry and return its number. A price that is in force already is not added again. Raises AccessError."""
    roles.require(actor, Change.PRICES)
    _ = price.per_hour  # raises UserError unless it states exactly one price
    with engine.begin() as connection:
        row = _row(price)
        same = [prices_table.c[name].is_not_distinct_from(value) for name, value in row.items()]
        recorded = sa.select(prices_table.c.price_id).where(*same, prices_table.c.withdrawn_at.is_(None))
        if (price_id := connection.scalar(recorded)) is not None:
            return int(price_id)
        added = connection.execute(prices_table.insert().values(**row, added_at=datetime.now(UTC)))
        number = int(added.inserted_primary_key[0]) if added.inserted_primary_key else 0
        audit.record(connection, actor, Change.PRICES, str(number), added=row)
        return number


def withdraw(engine: sa.Engine, price_id: int, *, actor: Actor) -> None:
    """Put an entry out of force; it stays in the book. Raises UserError if no entry in force has this number, and
    AccessError.
    """
    roles.require(actor, Change.PRICES)
    in_force = (prices_table.c.price_id == price_id, prices_table.c.withdrawn_at.is_(None))
    if not 0 <= price_id < 2**31:  # which no database's INTEGER holds
        raise UserError(f"there is no price {price_id}: `drafthouse prices` lists those that are in force")
    with engine.begin() as connection:
        done = connection.execute(prices_table.update().where(*in_force).values(withdrawn_at=datetime.now(UTC)))
        if done.rowcount:
            audit.record(connection, actor, Change.PRICES, str(price_id), withdrawn=True)
    if not done.rowcount:
        raise UserError(f"no price {price_id} is in force: `drafthouse prices` lists those that are")


def price_from(values: Mapping[str, Any]) -> Price:
    """Build a Price from the columns of the table. Raises UserError naming the invalid field."""
    given = {name: value for name, value in values.items() if value is not None}
    owned = {name: given.pop(name) for name in _OWNED if name in given}
    try:
        return Price.model_validate(given | ({"owned": owned} if owned else {}))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "owned")
        raise UserError(f"{where}: {first['msg'].lower()} (got {first['input']!r})") from None


def _row(price: Price) -> dict[str, float | str | date | None]:
    owned = price.owned
    values: dict[str, Any] = price.model_dump(exclude={"owned"})
    return values | {name: None if owned is None else getattr(owned, name) for name in _OWNED}


def _entry(row: sa.RowMapping) -> Entry:
    values = dict(row)
    own = {name: values.pop(name) for name in ("price_id", "added_at", "withdrawn_at")}
    return Entry(price=price_from(values), **own)
