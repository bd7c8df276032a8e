from __future__ import annotations

from datetime import date

import pytest
import sqlalchemy as sa

from lab.cost import Owned, Price, price_on
from lab.errors import UserError
from tests.actors import ADMIN
from warehouse.app_db import price_book

RENTED = Price(hardware="H200", valid_from=date(2026, 1, 1), currency="USD", source="a list", rented_per_hour=3.5)
BOUGHT = RENTED.model_copy(
    update={
        "rented_per_hour": None,
        "owned": Owned(purchase_price=30_000, lifetime_years=4, utilisation=0.6),
        "electricity_per_kwh": 0.2,
    }
)


def test_entries_are_returned_in_the_order_they_were_added(engine: sa.Engine) -> None:
    assert [price_book.add(engine, price, actor=ADMIN) for price in (RENTED, BOUGHT)] == [1, 2]
    prices = [entry.price for entry in price_book.entries(engine)]
    assert prices == [RENTED, BOUGHT]
    assert price_on(prices, "NVIDIA H200", date(2026, 2, 1)) == BOUGHT


def test_the_same_entry_is_not_added_twice(engine: sa.Engine) -> None:
    assert price_book.add(engine, BOUGHT, actor=ADMIN) == price_book.add(engine, BOUGHT, actor=ADMIN)
    assert len(price_book.entries(engine)) == 1


def test_a_withdrawn_entry_is_not_in_force_but_stays_in_the_book(engine: sa.Engine) -> None:
    number = price_book.add(engine, RENTED, actor=ADMIN)
    price_book.withdraw(engine, number, actor=ADMIN)
    (entry,) = price_book.entries(engine)
    assert entry.price == RENTED
    assert entry.withdrawn_at is not None
    assert price_book.add(engine, RENTED, actor=ADMIN) == number + 1
    for gone in (number, 99):
        with pytest.raises(UserError, match=f"no price {gone} is in force"):
            price_book.withdraw(engine, gone, actor=ADMIN)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"currency": "dollars"}, "currency"),
        ({"rented_per_hour": -1}, "rented_per_hour"),
        ({"rented_per_hour": None, "purchase_price": 5.0, "lifetime_years": 3.0, "utilisation": 1.5}, "utilisation"),
        ({"rented_per_hour": None, "purchase_price": 5.0}, "lifetime_years"),
        ({"source": ""}, "source"),
    ],
)
def test_an_invalid_price_is_refused_with_the_name_of_its_field(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        price_book.price_from(RENTED.model_dump(exclude={"owned"}) | wrong)


def test_an_entry_without_a_price_is_not_added(engine: sa.Engine) -> None:
    with pytest.raises(UserError, match="either rented_per_hour or owned"):
        price_book.add(engine, RENTED.model_copy(update={"rented_per_hour": None}), actor=ADMIN)
    assert price_book.entries(engine) == []
