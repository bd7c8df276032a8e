"""The metrics that arms can be compared by: those of the results page, acceptance, energy and cost."""

from __future__ import annotations

from lab.metrics.catalogue import BY_NAME, COST
from webapp.charts import measures

MEASURES = (
    *measures.MEASURES,
    *(BY_NAME[name] for name in ("acceptance_length", "acceptance_rate", "energy_j_per_output_token")),
    COST,
)
BY_LABEL = {metric.label: metric for metric in MEASURES}
