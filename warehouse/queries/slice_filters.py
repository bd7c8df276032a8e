"""Which runs a slice is made of: dimensions, filters, and both as SQL over the view `results`.

A dimension is a property of a run as text, the same in filters, groups and axes. No user's text is ever part of the
SQL: names of columns stand in this file, values are parameters.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal, get_args

from lab.errors import QueryError

Validity = Literal["not invalid", "valid", "invalid", "any"]
VALIDITIES: tuple[Validity, ...] = get_args(Validity)
UNKNOWN, NONE, CLOSED_LOOP = "unknown", "none", "closed loop"
#: Each dimension as SQL over `results`; what is null there has a word of its own.
DIMENSIONS: dict[str, str] = {
    "study": "study_name || ' · ' || job_id",
    "arm": "arm",
    "dataset": f"coalesce(dataset, '{UNKNOWN}')",
    "category": f"coalesce(category, '{UNKNOWN}')",
    "load": f"coalesce(pattern, '{UNKNOWN}')",
    "concurrency": f"coalesce(concurrency::VARCHAR, '{UNKNOWN}')",
    "request_rate": f"CASE WHEN origin = 'published' THEN '{UNKNOWN}' "
    f"ELSE coalesce(request_rate_rps::VARCHAR, '{CLOSED_LOOP}') END",
    "method": f"coalesce(method, '{UNKNOWN}')",
    "draft_model": f"coalesce(draft_model, CASE WHEN method IS NULL THEN '{UNKNOWN}' ELSE '{NONE}' END)",
    "k": f"coalesce(num_speculative_tokens::VARCHAR, CASE WHEN method = 'none' THEN '{NONE}' ELSE '{UNKNOWN}' END)",
    "engine": f"CASE WHEN engine IS NULL THEN '{UNKNOWN}' ELSE concat_ws(' ', engine, engine_version) END",
    "hardware": f"coalesce(hardware, '{UNKNOWN}')",
    "target": f"coalesce(target, '{UNKNOWN}')",
    "origin": "origin",
    "day": f"coalesce(strftime(started_at, '%Y-%m-%d'), '{UNKNOWN}')",
}
_VALID = {"not invalid": "is_valid IS NOT false", "valid": "is_valid", "invalid": "is_valid = false", "any": "true"}


@dataclass(frozen=True)
class Filters:
    """Which completed runs. `chosen`: of a dimension any of these, and so for each that is named.

    Runs of an origin in `beside` are there whatever their study. `begun_from` and `begun_to` are days in UTC, both
    included; a run that does not tell when it began is outside of every range.
    """

    chosen: tuple[tuple[str, tuple[str, ...]], ...] = ()
    beside: tuple[str, ...] = ()
    begun_from: date | None = None
    begun_to: date | None = None
    validity: Validity = "not invalid"

    def without(self, name: str) -> Filters:
        """The same without one of the filters that `active` names."""
        if name == "validity":
            return replace(self, validity="any")
        if name == "from":
            return replace(self, begun_from=None)
        if name == "to":
            return replace(self, begun_to=None)
        return replace(self, chosen=tuple(pair for pair in self.chosen if pair[0] != name))

    @property
    def active(self) -> tuple[str, ...]:
        """Names of what narrows: dimensions, `from`, `to`, `validity`."""
        names = [name for name, values in self.chosen if values]
        names += ["from"] if self.begun_from else []
        names += ["to"] if self.begun_to else []
        return (*names, *(() if self.validity == "any" else ("validity",)))


def selected(names: Iterable[str]) -> str:
    """Dimensions as columns of a SELECT. Raises QueryError for what is none."""
    return ", ".join(f"{DIMENSIONS[_known(name, DIMENSIONS)]} AS {name}" for name in names)


def where(filters: Filters) -> tuple[str, list[Any]]:
    """The condition of a WHERE and its parameters. Raises QueryError for what is no dimension or no validity."""
    clauses = ["status = 'completed'", _VALID[_known(filters.validity, _VALID)]]
    parameters: list[Any] = []
    for name, values in filters.chosen:
        if not values:
            continue
        clause = f"list_contains(?::VARCHAR[], {DIMENSIONS[_known(name, DIMENSIONS)]})"
        parameters.append(list(values))
        if name == "study" and filters.beside:
            clause = f"({clause} OR list_contains(?::VARCHAR[], origin))"
            parameters.append(list(filters.beside))
        clauses.append(clause)
    for day, clause in ((filters.begun_from, "started_at >= ?::DATE"), (filters.begun_to, "started_at < ?::DATE + 1")):
        if day is not None:
            clauses.append(clause)
            parameters.append(day)
    return " AND ".join(clauses), parameters


def _known(name: str, known: Collection[str]) -> str:
    if name not in known:
        raise QueryError(f"{name!r} is no filter: use one of {', '.join(known)}")
    return name
