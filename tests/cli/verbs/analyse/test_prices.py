"""`drafthouse prices`, as a person or a program types it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.homes import home_with_databases


def test_prices_are_added_listed_and_withdrawn(tmp_path: Path) -> None:
    home = home_with_databases(tmp_path)
    assert "drafthouse prices add" in home.ask("prices").stdout
    added = home.ask("prices", "add", "H200", "--per-hour", "3.5", "--source", "a list", "--from", "2026-01-01")
    assert added.stdout == "price 1: H200 at 3.5 USD an hour from 2026-01-01\n"
    assert "a list" in home.ask("prices").stdout
    assert "needs either rented_per_hour or owned" in home.refusal("prices", "add", "H200", "--source", "a list")
    assert home.ask("prices", "withdraw", "1").returncode == 0
    (entry,) = json.loads(home.ask("prices", "--json").stdout)
    assert (entry["per_hour"], entry["price"]["hardware"]) == (3.5, "H200")
    assert entry["withdrawn_at"] is not None
