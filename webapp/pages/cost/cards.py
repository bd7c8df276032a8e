"""The cards at the top of the Cost page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.study import Slo
from warehouse.queries.costs import ArmCost
from webapp.pages.cost.tables import slo_bounds
from webapp.shared.cards import Card
from webapp.shared.text import count, number


def price_sentence(costs: Sequence[ArmCost], utilisation: float | None) -> str:
    """The price of a working hour and its source; several prices are all named."""
    prices = sorted({(each.price_per_hour, each.currency, each.price_source) for each in costs})
    each_price = "; ".join(f"{number(per_hour)} {currency} ({source})" for per_hour, currency, source in prices)
    share = "" if utilisation is None else f", at {utilisation:.0%} utilisation"
    return f"A working hour costs {each_price}{share}."


def lowest_cost_card(costs: Sequence[ArmCost]) -> Card:
    label = "Lowest cost per 10⁶ output tokens"
    known = [(each.per_million_output_tokens, each) for each in costs if each.per_million_output_tokens is not None]
    if not known:
        return Card(label, "unknown", "No run has an output throughput")
    if len({each.currency for each in costs}) > 1:
        return Card(label, "–", "Prices in different currencies cannot be compared: enter one price above")
    amount, lowest = min(known, key=lambda pair: pair[0])
    return Card(label, f"{number(amount)} {lowest.currency}", where(lowest))


def saving_card(costs: Sequence[ArmCost]) -> Card:
    label = "Largest saving"
    known = [(each.saving, each) for each in costs if each.saving is not None]
    if not known:
        return Card(label, "–", "Needs the baseline and another arm under the same load, with prices in one currency")
    amount, most = max(known, key=lambda pair: pair[0])
    if most.saving_low is None or most.saving_high is None:
        interval = "one repeat: no interval"
    else:
        interval = f"95 % interval {most.saving_low:.1%} to {most.saving_high:.1%}"
    return Card(label, f"{amount:.1%}", f"{where(most)}; {interval}")


def slo_card(slo: Slo | None, cheapest: Mapping[str, ArmCost | None], least_share: float) -> Card:
    """The cheapest arm that meets the SLO, by name if it is the same for every workload. `cheapest`: by workload."""
    label = "Cheapest arm within the SLO"
    if slo is None:
        return Card(label, "no SLO", "This study sets none; [slo] in a study may bound TTFT, TPOT and E2E latency")
    bounds = f"{slo_bounds(slo)}, for {least_share:.0%} of requests"
    arms = {each.arm for each in cheapest.values() if each is not None}
    if not arms:
        return Card(label, "none", f"No arm meets it at any load: {bounds}")
    without = sum(each is None for each in cheapest.values())
    more = f"; no arm meets it on {count(without, 'workload')}" if without else ""
    return Card(label, next(iter(arms)) if len(arms) == 1 else f"{len(arms)} arms", f"{bounds}{more}")


def energy_card(costs: Sequence[ArmCost]) -> Card:
    label = "Lowest energy per 10⁶ output tokens"
    measured = [(each.kwh_per_million_output_tokens, each) for each in costs if each.kwh_per_million_output_tokens]
    if not measured:
        return Card(label, "not measured", "These runs recorded no GPU power")
    kwh, lowest = min(measured, key=lambda pair: pair[0])
    electricity = lowest.electricity_per_million_output_tokens
    paid = "" if electricity is None else f"; electricity {number(electricity)} {lowest.currency}"
    return Card(label, f"{number(kwh)} kWh", f"{where(lowest)}{paid}")


def where(each: ArmCost) -> str:
    return f"{each.arm}, {each.cell.workload}, concurrency {each.cell.concurrency}"
