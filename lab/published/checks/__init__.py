"""Checks over published figures: whether they follow from each other. Each gives sentences, and none where all fits.

Printed figures are rounded, so each check allows what rounding can have done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lab.published.checks.acceptance import acceptance_lengths, acceptance_positions, tau_examples
from lab.published.checks.grouping import Figures
from lab.published.checks.money import cost_ratios, costs
from lab.published.checks.tables import contradictions, identical_tables, total_throughputs
from lab.published.figures import PublishedFinding, TauClaim

__all__ = [
    "CHECKS",
    "acceptance_lengths",
    "acceptance_positions",
    "contradictions",
    "cost_ratios",
    "costs",
    "findings",
    "identical_tables",
    "tau_examples",
    "total_throughputs",
]

#: Every check of figures by its name.
CHECKS: dict[str, Callable[[Figures], list[PublishedFinding]]] = {
    check.__name__: check
    for check in (
        acceptance_lengths,
        acceptance_positions,
        costs,
        cost_ratios,
        identical_tables,
        contradictions,
        total_throughputs,
    )
}


def findings(figures: Figures, claims: Iterable[TauClaim] = ()) -> tuple[PublishedFinding, ...]:
    """Everything that any check has to say, in the order of the checks."""
    found = [finding for check in CHECKS.values() for finding in check(figures)]
    return (*found, *tau_examples(claims))
