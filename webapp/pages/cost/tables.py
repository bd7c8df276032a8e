"""The Cost page's cards and tables: rows, titles, units and formats. The charts draw the same rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from lab.metrics.number_format import number, percentage
from lab.study import Slo
from warehouse.queries.costs import ArmCost, meets_slo, saving_words
from webapp.pages.cost.selection import MEASURES
from webapp.shared.cards import Card
from webapp.shared.tables import Column, columns
from webapp.shared.text import count
from webapp.shared.verdicts.tables import SIGNS

_WHERE = ["arm", "verdict", "workload", "concurrency"]
#: Each verdict on a saving with its mark.
_SIGNS = SIGNS | {"cheaper": "▲ cheaper", "dearer": "▼ dearer"}
_FIRST, *_OTHERS = MEASURES.values()
_SAVING = ["saving", "saving_low", "saving_high"]
#: Only in the downloads: the page's sentence on the price, or another column, already shows these values.
_SAID_ABOVE = ("currency", "price_per_hour", "price_source")
_SAID_BESIDE = ("pattern", "at_peak", "meets_slo")
#: Shown where some run has them.
_AT_TIMES = [
    "per_million_answer_tokens",
    "kwh_per_million_output_tokens",
    "electricity_per_million_output_tokens",
]
_MEETS = {True: "yes", False: "no", None: "unknown"}


def rows(costs: Sequence[ArmCost], least_share: float) -> pd.DataFrame:
    """Return one row per arm and cell. `category` repeats the workload, by which charts are split into panels;
    `meets_slo` is yes, no or unknown.
    """
    found: list[dict[str, Any]] = []
    for arm_cost in costs:
        values = asdict(arm_cost)
        cell = values.pop("cell")
        found.append(
            cell | values | {"category": cell["workload"], "meets_slo": _MEETS[meets_slo(arm_cost, least_share)]}
        )
    return pd.DataFrame(found)


def currencies(costs: Sequence[ArmCost]) -> list[str]:
    return sorted({arm_cost.currency for arm_cost in costs})


def table(frame: pd.DataFrame, *, has_slo: bool) -> pd.DataFrame:
    """Return the columns to show, shares in percent, without energy if no run measured it, and without answers if no
    model reasoned before them.
    """
    known = [name for name in _AT_TIMES if frame[name].notna().any()]
    slo = ["within_slo", "meets_slo"] if has_slo else []
    percent = [*_SAVING, *(["within_slo"] if has_slo else [])]
    names = [*_WHERE, _FIRST, *_SAVING, *slo, *_OTHERS, *known, "pattern", "at_peak"]
    names += ["currency", "price_per_hour", "price_source"]
    shown = frame[names]
    words = shown["verdict"].map(_SIGNS).mask(frame["is_baseline"], "baseline")
    return shown.assign(verdict=words, **{name: 100 * shown[name].astype(float) for name in percent})


def hidden(table: pd.DataFrame) -> tuple[str, ...]:
    """Return the redundant columns, which would push others out of a page of 1280 pixels."""
    too_much: tuple[str, ...] = ("workload",) if len(set(table["workload"])) == 1 else ("per_request",)
    too_much += ("per_million_tokens",) if "within_slo" in table else ()
    return _SAID_BESIDE + too_much + (_SAID_ABOVE if len(set(table["price_per_hour"])) == 1 else ())


def cheapest(by_workload: Mapping[str, ArmCost | None]) -> pd.DataFrame:
    """Return one row per workload: the cheapest arm that meets the SLO. Shares in percent."""
    return pd.DataFrame([_cheapest_row(workload, arm_cost) for workload, arm_cost in by_workload.items()])


def _cheapest_row(workload: str, arm_cost: ArmCost | None) -> dict[str, Any]:
    if arm_cost is None:
        return {"workload": workload, "arm": "none meets it"}
    return {
        "workload": workload,
        "arm": arm_cost.arm,
        "pattern": arm_cost.cell.pattern,
        "concurrency": arm_cost.cell.concurrency,
        "per_million_output_tokens": arm_cost.per_million_output_tokens,
        "within_slo": None if arm_cost.within_slo is None else 100 * arm_cost.within_slo,
        "saving": None if arm_cost.saving is None else 100 * arm_cost.saving,
    }


def slo_bounds(slo: Slo) -> str:
    """Format the bounds: `TTFT at most 80 ms, TPOT at most 60 ms`."""
    bounds = (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms), ("E2E", slo.e2e_ms))
    return ", ".join(f"{name} at most {bound:g} ms" for name, bound in bounds if bound is not None)


def table_config(currency: str) -> dict[str, Any]:
    money = {
        "per_million_output_tokens": (f"Per 10⁶ output ({currency})", "A million output tokens"),
        "with_start_up": ("With start-up", "Includes each run's share of the engine's start"),
        "per_million_answer_tokens": ("Per 10⁶ answer", "A million tokens of the answer: reasoning is paid for, too"),
        "per_million_tokens": ("Per 10⁶, all", "A million tokens, input and output together"),
        "electricity_per_million_output_tokens": (f"Electricity per 10⁶ ({currency})", "GPUs only"),
    }
    return columns(
        *("arm", "workload", "pattern", "concurrency", "currency"),
        pinned="arm",
        verdict={"width": 108},
        per_request=Column("Per request", "%.3g", width="small"),
        at_peak=Column("Peak", help="This arm's highest throughput on the workload", is_flag=True),
        saving=Column("Saving [95 %]", "%.1f", "Share of the baseline's cost; negative: it costs more", width=150),
        saving_low=Column("95 % from (%)", "%.1f", "Empty with one repeat"),
        saving_high=Column("95 % to (%)", "%.1f"),
        within_slo=Column("Within SLO (%)", "%.1f", "Share of sent requests that meet the SLO; failed requests do not"),
        meets_slo=Column("Meets the SLO", help="Whether the required share of requests meets the SLO"),
        kwh_per_million_output_tokens=Column("Energy (kWh per 10⁶)", "%.4g", "Per 10⁶ output tokens"),
        price_per_hour=Column("Price of a working hour", "%,.4g", "In the row's currency"),
        price_source=Column("Source of the price"),
        **{
            name: Column(title, "%,.4g", explanation, width=115 if name == _FIRST else 88)
            for name, (title, explanation) in money.items()
        },
    )


def price_sentence(costs: Sequence[ArmCost], utilisation: float | None) -> str:
    """Describe the hourly price and its source; several prices are all named."""
    prices = sorted({(arm_cost.price_per_hour, arm_cost.currency, arm_cost.price_source) for arm_cost in costs})
    each_price = "; ".join(f"{number(per_hour)} {currency} ({source})" for per_hour, currency, source in prices)
    share = "" if utilisation is None else f", at {percentage(utilisation)} utilisation"
    return f"Hourly price: {each_price}{share}."


def lowest_cost_card(costs: Sequence[ArmCost]) -> Card:
    label = "Lowest cost per 10⁶ output tokens"
    priced = [
        (arm_cost.per_million_output_tokens, arm_cost)
        for arm_cost in costs
        if arm_cost.per_million_output_tokens is not None
    ]
    if not priced:
        return Card(label, "unknown", "No run has an output throughput")
    if len({arm_cost.currency for arm_cost in costs}) > 1:
        return Card(label, "–", "Prices in different currencies cannot be compared: enter one price above")
    amount, lowest = min(priced, key=lambda pair: pair[0])
    verdict = "" if lowest.verdict is None else f"; {_SIGNS[lowest.verdict]} against the baseline there"
    return Card(label, f"{number(amount)} {lowest.currency}", f"{where(lowest)}{verdict}")


def beside_cards(costs: Sequence[ArmCost]) -> list[Card]:
    """Return what tokens cost without and with an arm, and what that saves: in the cell with the surest saving."""
    savings = [arm_cost for arm_cost in costs if arm_cost.saving is not None and arm_cost.verdict != "control"]
    if not savings:
        return [
            Card("Saving", "–", "Needs the baseline and another arm under the same load, with prices in one currency")
        ]
    most = max(savings, key=lambda arm_cost: -math.inf if arm_cost.saving_low is None else arm_cost.saving_low)
    base = next(arm_cost for arm_cost in costs if arm_cost.is_baseline and arm_cost.cell == most.cell)
    amounts = [number(arm_cost.per_million_output_tokens) for arm_cost in (base, most)]
    about = f"per 10⁶ output tokens, {most.cell.workload}, concurrency {most.cell.concurrency}"
    saving, _, interval = saving_words(most).partition(" [")
    within = f"95 % CI [{interval} by the usual reading" if interval else "one repeat gives no interval"
    several = f"; the surest of {count(len(savings), 'comparison')}" if len(savings) > 1 else ""
    if interval.startswith("unknown"):
        saving, within, several = "unknown", "no interval is narrow enough to say", ""
    return [
        Card(f"Without: {base.arm}", f"{amounts[0]} {base.currency}", about),
        Card(f"With: {most.arm}", f"{amounts[1]} {most.currency}", about),
        Card("Saving", saving, f"{_SIGNS[most.verdict or 'inconclusive']}, {within}{several}"),
    ]


def slo_card(
    slo: Slo | None, cheapest: Mapping[str, ArmCost | None], least_share: float, costs: Sequence[ArmCost]
) -> Card:
    """Return the card of the cheapest arm that meets the SLO, named if all workloads agree, or else of the nearest.

    `cheapest`: by workload.
    """
    label = "Cheapest arm within the SLO"
    if slo is None:
        return Card(label, "no SLO", "This study sets none: Submit has bounds on TTFT, TPOT and E2E latency")
    bounds = f"{slo_bounds(slo)}, for {percentage(least_share)} of requests"
    met = [arm_cost for arm_cost in cheapest.values() if arm_cost is not None]
    arms = {arm_cost.arm for arm_cost in met}
    if not met:
        near = max(costs, key=lambda arm_cost: arm_cost.within_slo or 0.0)
        nearest = "" if not near.within_slo else f"; nearest: {percentage(near.within_slo, 1)} with {where(near)}"
        return Card(label, "none", f"No arm meets it at any load: {bounds}{nearest}")
    without = sum(arm_cost is None for arm_cost in cheapest.values())
    more = f"; no arm meets it on {count(without, 'workload')}" if without else ""
    only = met[0]
    paid = f"{number(only.per_million_output_tokens)} {only.currency} per 10⁶ output tokens, {where(only)}: "
    value = only.arm if len(arms) == 1 else f"{len(arms)} arms"
    return Card(label, value, f"{paid if len(met) == 1 else ''}{bounds}{more}")


def energy_card(costs: Sequence[ArmCost]) -> Card:
    label = "Lowest energy per 10⁶ output tokens"
    measured = [
        (arm_cost.kwh_per_million_output_tokens, arm_cost)
        for arm_cost in costs
        if arm_cost.kwh_per_million_output_tokens
    ]
    if not measured:
        return Card(label, "not measured", "These runs recorded no GPU power")
    kwh, lowest = min(measured, key=lambda pair: pair[0])
    electricity = lowest.electricity_per_million_output_tokens
    paid = "" if electricity is None else f"; electricity {number(electricity)} {lowest.currency}"
    return Card(label, f"{number(kwh)} kWh", f"{where(lowest)}{paid}")


def where(arm_cost: ArmCost) -> str:
    return f"{arm_cost.arm}, {arm_cost.cell.workload}, concurrency {arm_cost.cell.concurrency}"
