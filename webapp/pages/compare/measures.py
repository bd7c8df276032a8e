"""What arms can be compared by: the metrics of the results page, acceptance, energy and cost."""

from __future__ import annotations

from lab.metrics.catalogue import METRICS
from lab.metrics.definition import Metric
from webapp.charts import measures
from webapp.charts.measures import Measure

_BY_NAME = {metric.name: metric for metric in METRICS}
_MORE = {
    "acceptance_length": "Acceptance length",
    "acceptance_rate": "Acceptance rate",
    "energy_j_per_output_token": "Energy per output token",
}
#: Its currency is the price book's.
_COST = Metric(
    "cost_per_million_output_tokens",
    "currency per 10^6 output tokens",
    "lower",
    "price of an hour / 3600 / output_tok_per_s x 10^6",
    (),
)
MEASURES = (
    *measures.MEASURES,
    *(Measure(label, _BY_NAME[name]) for name, label in _MORE.items() if name in _BY_NAME),
    Measure("Cost per million output tokens", _COST),
)
BY_LABEL = {measure.label: measure for measure in MEASURES}


def ratio_name(measure: Measure) -> str:
    """What a ratio of it is called: only rates speed up."""
    return "Speed-up" if measure.unit.endswith("/s") else "Ratio to the baseline"
