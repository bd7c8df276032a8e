"""A price as it is typed: what is missing or wrong beside which field, or the entry it makes. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lab.cost import Price
from lab.errors import UserError
from warehouse.app_db.price_book import price_from

RENTED, BOUGHT = "rented by the hour", "bought"
_CURRENCY = re.compile(r"^[A-Z]{3}$")
_OWNED = {"purchase_price": "what it was bought for", "lifetime_years": "how many years it will be used"}


def read(values: Mapping[str, Any]) -> tuple[Price | None, dict[str, str]]:
    """The entry, or None and a sentence for each field that needs one. Utilisation is in percent."""
    problems = {field: sentence for field, sentence in _problems(values).items() if sentence}
    if problems:
        return None, problems
    try:
        return price_from(_columns(values)), {}
    except UserError as error:
        return None, {"hardware": str(error)}


def _problems(values: Mapping[str, Any]) -> dict[str, str]:
    day = values.get("valid_from")
    return {
        "hardware": "" if _text(values, "hardware") else "say which hardware: part of its name is enough",
        "source": "" if _text(values, "source") else "say where the price is from",
        "currency": "" if _CURRENCY.match(_text(values, "currency")) else "three capital letters, like USD",
        "valid_from": "say from which day on it counts" if day is None else "",
        **_price_problems(values),
    }


def _price_problems(values: Mapping[str, Any]) -> dict[str, str]:
    if values["kind"] == RENTED:
        return {"rented_per_hour": _above_zero(values, "rented_per_hour", "what an hour of all of it costs")}
    found = {field: _above_zero(values, field, said) for field, said in _OWNED.items()}
    share = values.get("utilisation")
    fits = share is not None and 0 < share <= 100
    return found | {"utilisation": "" if fits else "the share of the hours in which it works, above 0 to 100 %"}


def _above_zero(values: Mapping[str, Any], field: str, said: str) -> str:
    value = values.get(field)
    return "" if value is not None and value > 0 else f"{said}, above 0"


def _columns(values: Mapping[str, Any]) -> dict[str, Any]:
    shared: dict[str, Any] = {name: _text(values, name) for name in ("hardware", "source", "currency")}
    shared |= {"valid_from": values["valid_from"], "electricity_per_kwh": values.get("electricity_per_kwh")}
    if values["kind"] == RENTED:
        return shared | {"rented_per_hour": values["rented_per_hour"]}
    return shared | {name: values[name] for name in _OWNED} | {"utilisation": values["utilisation"] / 100}


def _text(values: Mapping[str, Any], name: str) -> str:
    return str(values.get(name) or "").strip()
