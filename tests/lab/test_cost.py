from __future__ import annotations

from datetime import date

import pytest

from lab import cost
from lab.cost import Owned, Price, Window
from lab.errors import UserError

RENTED = Price(hardware="H200", valid_from=date(2026, 1, 1), currency="USD", source="list", rented_per_hour=3.5)


def newer(**changes: object) -> Price:
    return RENTED.model_copy(update=changes)


@pytest.mark.parametrize(("tok_per_s", "usd"), [(2621.57, 4.41), (3247.50, 3.56)])
def test_the_published_costs_follow_from_the_throughputs_they_imply(tok_per_s: float, usd: float) -> None:
    """4.41 and 3.56 USD at 41.62 USD an hour: throughputs of about 2622 and 3248 tok/s, a gain of 24 %."""
    computed = cost.per_million_tokens(41.62, tok_per_s)
    assert computed == pytest.approx(usd, abs=0.005)
    assert 41.62 / 3600 / usd * 1e6 == pytest.approx(tok_per_s, rel=1e-4)


def test_a_saving_is_the_share_of_the_baselines_cost() -> None:
    assert cost.saving(4.41 / 3.56) == pytest.approx(1 - 3.56 / 4.41)
    assert cost.saving(1.0) == 0
    assert cost.saving(2.0, price_ratio=3.0) == -0.5


def test_what_is_not_known_costs_nothing_known() -> None:
    assert cost.per_million_tokens(None, 5.0) is None
    assert cost.per_million_tokens(1.0, None) is None
    assert cost.per_million_tokens(1.0, 0.0) is None
    assert cost.per_request(1.0, None) is None
    assert cost.electricity_per_million_tokens(None, 0.3) is None
    assert cost.electricity_per_million_tokens(2.0, None) is None
    assert cost.per_million_with_start_up(1.0, None, [Window(1.0, 1)]) is None


def test_start_up_is_spread_over_all_that_was_measured_on_it() -> None:
    windows = [Window(50.0, 1000), Window(50.0, 3000)]
    without = cost.per_million_with_start_up(36.0, 0.0, windows)
    assert without is not None
    assert without == pytest.approx(36 / 3600 * 100 / 4000 * 1e6)
    assert cost.per_million_with_start_up(36.0, 100.0, windows) == pytest.approx(2 * without)


def test_bought_hardware_costs_its_price_over_the_hours_it_works() -> None:
    owned = Owned(purchase_price=87_660.0, lifetime_years=5, utilisation=0.5)
    assert owned.per_hour == pytest.approx(4.0)
    assert newer(rented_per_hour=None, owned=owned).per_hour == pytest.approx(4.0)


def test_an_entry_with_no_price_or_with_two_is_refused() -> None:
    owned = Owned(purchase_price=1.0, lifetime_years=1, utilisation=1)
    for wrong in (newer(rented_per_hour=None), newer(owned=owned)):
        with pytest.raises(UserError, match="either rented_per_hour or owned"):
            _ = wrong.per_hour


def test_the_price_of_a_day_is_the_latest_best_fitting_one() -> None:
    later = newer(valid_from=date(2026, 6, 1), rented_per_hour=3.0)
    mended = newer(valid_from=date(2026, 6, 1), rented_per_hour=3.1)
    exact = newer(hardware="NVIDIA H200 NVL", valid_from=date(2025, 1, 1), rented_per_hour=2.0)
    book = [later, mended, RENTED, exact]
    assert cost.price_on(book, "2 x nvidia h200", date(2026, 5, 31)) == RENTED
    assert cost.price_on(book, "2 x NVIDIA H200", date(2026, 6, 1)) == mended
    assert cost.price_on(book, "NVIDIA H200 NVL", date(2026, 7, 1)) == exact
    assert cost.price_on(book, "NVIDIA H200", date(2025, 12, 31)) is None
    assert cost.price_on([], "NVIDIA H200", date(2026, 12, 31)) is None


@pytest.mark.parametrize(
    ("part", "hardware", "fits"),
    [
        ("H20", "NVIDIA H200", False),
        ("L40", "NVIDIA L40S", False),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("a100-sxm4", "NVIDIA A100-SXM4-80GB", True),
        ("RTX 4090", "NVIDIA GeForce RTX 4090", True),
        ("Xeon(R)", "Intel(R) Xeon(R) CPU", True),
    ],
)
def test_a_price_of_another_card_whose_name_begins_alike_is_none(part: str, hardware: str, fits: bool) -> None:  # noqa: FBT001
    found = cost.price_on([newer(hardware=part)], hardware, date(2026, 12, 31))
    assert (found is not None) == fits


def test_energy_becomes_kilowatt_hours_and_money() -> None:
    assert cost.kwh_per_million_tokens(3.6) == pytest.approx(1.0)
    assert cost.electricity_per_million_tokens(3.6, 0.3) == pytest.approx(0.3)


def test_hours_in_which_nothing_runs_are_paid_for_too() -> None:
    assert RENTED.at(0.5).per_hour == pytest.approx(7.0)
    owned = newer(rented_per_hour=None, owned=Owned(purchase_price=8766.0, lifetime_years=1, utilisation=0.25))
    assert owned.per_hour == pytest.approx(4.0)
    assert owned.at(1.0).per_hour == pytest.approx(1.0)
