"""What the Cost page says at a glance. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.study import Slo
from warehouse.queries.costs import ArmCost
from webapp.pages.cost.tables import slo_words
from webapp.pages.results.summary import Card
from webapp.shared.text import count, number


def price_words(costs: Sequence[ArmCost], utilisation: float | None) -> str:
    """What a working hour costs, and by which source. Several prices are all named."""
    prices = sorted({(each.price_per_hour, each.currency, each.price_source) for each in costs})
    each_price = "; ".join(f"{number(per_hour)} {currency} ({source})" for per_hour, currency, source in prices)
    at = "" if utilisation is None else f". It works {utilisation:.0%} of the hours that are paid for"
    return f"A working hour costs {each_price}{at}."


def least_card(costs: Sequence[ArmCost]) -> Card:
    label = "Least cost per 10⁶ output tokens"
    known = [(each.per_million_output_tokens, each) for each in costs if each.per_million_output_tokens is not None]
    if not known:
        return Card(label, "unknown", "No run has an output throughput")
    if len({each.currency for each in costs}) > 1:
        return Card(label, "–", "Prices in several currencies are not compared: write one above")
    amount, least = min(known, key=lambda pair: pair[0])
    return Card(label, f"{number(amount)} {least.currency}", where(least))


def saving_card(costs: Sequence[ArmCost]) -> Card:
    label = "Largest saving"
    known = [(each.saving, each) for each in costs if each.saving is not None]
    if not known:
        return Card(label, "–", "Needs the baseline and another arm under the same load, priced in one currency")
    amount, most = max(known, key=lambda pair: pair[0])
    if most.saving_low is None or most.saving_high is None:
        sure = "one repeat: no interval"
    else:
        sure = f"95 % interval {most.saving_low:.1%} to {most.saving_high:.1%}"
    return Card(label, f"{amount:.1%}", f"{where(most)}; {sure}")


def slo_card(slo: Slo | None, found: Mapping[str, ArmCost | None], least_share: float) -> Card:
    """The cheapest arms that keep the SLO: where every workload has the same one it is named."""
    label = "Cheapest that keeps the SLO"
    if slo is None:
        return Card(label, "no SLO", "The study gives none; its table slo may bound TTFT, TPOT and E2E latency")
    asked = f"{slo_words(slo)}, of {least_share:.0%} of requests"
    kept = {each.arm for each in found.values() if each is not None}
    if not kept:
        return Card(label, "none", f"No arm at any load keeps it: {asked}")
    lacking = sum(each is None for each in found.values())
    more = f"; {count(lacking, 'workload')} without any" if lacking else ""
    return Card(label, next(iter(kept)) if len(kept) == 1 else f"{len(kept)} arms", f"{asked}{more}")


def energy_card(costs: Sequence[ArmCost]) -> Card:
    label = "Least energy per 10⁶ output tokens"
    measured = [(each.kwh_per_million_output_tokens, each) for each in costs if each.kwh_per_million_output_tokens]
    if not measured:
        return Card(label, "not measured", "No power of a GPU was seen in these runs")
    kwh, least = min(measured, key=lambda pair: pair[0])
    electricity = least.electricity_per_million_output_tokens
    paid = "" if electricity is None else f"; electricity {number(electricity)} {least.currency}"
    return Card(label, f"{number(kwh)} kWh", f"{where(least)}{paid}")


def where(each: ArmCost) -> str:
    return f"{each.arm}, {each.place.workload}, concurrency {each.place.concurrency}"
