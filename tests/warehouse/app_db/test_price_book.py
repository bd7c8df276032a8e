from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from host.settings import Settings
from lab.cost import Owned, Price, price_on
from lab.errors import UserError
from tests.actors import ADMIN
from tests.migrated import copy_migrated
from warehouse.app_db import price_book
from warehouse.app_db.engine import app_engine

RENTED = Price(hardware="H200", valid_from=date(2026, 1, 1), currency="USD", source="a list", rented_per_hour=3.5)
BOUGHT = RENTED.model_copy(
    update={
        "rented_per_hour": None,
        "owned": Owned(purchase_price=30_000, lifetime_years=4, utilisation=0.6),
        "electricity_per_kwh": 0.2,
    }
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sa.Engine]:
    settings = Settings(home=tmp_path / "home")
    copy_migrated(settings.home)
    engine = app_engine(settings.app_database_url)
    yield engine
    engine.dispose()


def test_entries_are_returned_in_the_order_they_were_added(database: sa.Engine) -> None:
    assert price_book.book(database) == []
    assert [price_book.add(database, price, actor=ADMIN) for price in (RENTED, BOUGHT)] == [1, 2]
    assert price_book.book(database) == [RENTED, BOUGHT]
    assert price_on(price_book.book(database), "NVIDIA H200", date(2026, 2, 1)) == BOUGHT


def test_the_same_entry_is_not_added_twice(database: sa.Engine) -> None:
    assert price_book.add(database, BOUGHT, actor=ADMIN) == price_book.add(database, BOUGHT, actor=ADMIN)
    assert len(price_book.entries(database)) == 1


def test_a_withdrawn_entry_is_not_in_force_but_stays_in_the_book(database: sa.Engine) -> None:
    number = price_book.add(database, RENTED, actor=ADMIN)
    price_book.withdraw(database, number, actor=ADMIN)
    assert price_book.book(database) == []
    (entry,) = price_book.entries(database)
    assert entry.price == RENTED
    assert entry.withdrawn_at is not None
    assert price_book.add(database, RENTED, actor=ADMIN) == number + 1
    for gone in (number, 99):
        with pytest.raises(UserError, match=f"no price {gone} is in force"):
            price_book.withdraw(database, gone, actor=ADMIN)


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


def test_an_entry_without_a_price_is_not_added(database: sa.Engine) -> None:
    with pytest.raises(UserError, match="either rented_per_hour or owned"):
        price_book.add(database, RENTED.model_copy(update={"rented_per_hour": None}), actor=ADMIN)
    assert price_book.entries(database) == []


@given(st.floats(0.01, 1e6), st.floats(0.1, 30), st.floats(0.01, 1))
def test_bought_hardware_reads_back_as_it_was(price: float, years: float, share: float) -> None:
    owned = Owned(purchase_price=price, lifetime_years=years, utilisation=share)
    whole = BOUGHT.model_copy(update={"owned": owned})
    assert price_book.price_from(price_book._row(whole)) == whole
