"""A round of the ingester that takes in all there is, however slow the machine is."""

from __future__ import annotations

import functools

from warehouse.ingest import service

ingest_once = functools.partial(service.ingest_once, budget_s=600.0)
