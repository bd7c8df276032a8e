"""Read the published figures that ship with the project into typed, frozen records."""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from lab.errors import UserError
from lab.published.checks import findings
from lab.published.figures import PublishedFigure, PublishedFinding, Scale, TauClaim

_SCALES: dict[str, Scale] = {
    "": "absolute",
    "baseline = 100": "percent of baseline",
    "change from baseline": "percent change",
}
_PRICE = re.compile(r"at ([\d.]+) USD/hour")


@dataclass(frozen=True)
class Source:
    """Who published, when (as exactly as known: 2025, or 2026-02), and how they measured."""

    id: str
    date: str
    title: str
    method: str
    preset: str | None  # the preset that repeats it
    presets: Mapping[str, str]  # other presets, by the source's own study that each repeats
    tau_examples: tuple[TauClaim, ...] = ()


@cache
def figures() -> tuple[PublishedFigure, ...]:
    """Return all figures of figures.csv, in its order."""
    text = files("lab.published").joinpath("figures.csv").read_text(encoding="utf-8")
    return tuple(map(_figure, csv.DictReader(text.splitlines(), strict=True)))


@cache
def sources() -> dict[str, Source]:
    """Return all sources of sources.toml by id."""
    text = files("lab.published").joinpath("sources.toml").read_text(encoding="utf-8")
    return {source["id"]: _source(source) for source in tomllib.loads(text)["sources"]}


@cache
def doubts() -> tuple[PublishedFinding, ...]:
    """Return the findings of the checks about all figures."""
    return findings(figures(), [claim for source in sources().values() for claim in source.tau_examples])


def preset_of(source: str, study: str | None = None) -> str:
    """Return the preset that repeats the source's study, its main one by default. Raises UserError if there is none."""
    if (entry := sources().get(source)) is None:
        raise UserError(f"{source!r} is not a published source: choose one of {', '.join(sources())}")
    studies = list(dict.fromkeys(figure.study for figure in figures() if figure.source == source))
    if study is not None and study not in studies:
        raise UserError(f"{source} has no experiment {study!r}: choose one of {', '.join(studies) or '(none)'}")
    name = entry.presets.get(study or "", entry.preset)
    if name is None:
        raise UserError(f"{source} has no measurements, so there is nothing to repeat")
    return name


def repeated_by(source: str, preset: str) -> tuple[PublishedFigure, ...]:
    """Return the figures of every study of the source that this preset repeats."""
    of_source = [figure for figure in figures() if figure.source == source]
    return tuple(figure for figure in of_source if preset_of(source, figure.study) == preset)


def _figure(row: Mapping[str, str]) -> PublishedFigure:
    price = _PRICE.search(row["note"])
    return PublishedFigure(
        source=row["source"],
        study=row["study"],
        hardware=row["hardware"],
        engine=row["engine"],
        engine_version=row["engine_version"] or None,
        target=row["target_model"],
        method=row["method"],
        draft_model=row["draft_model"] or None,
        num_speculative_tokens=int(row["num_speculative_tokens"]) if row["num_speculative_tokens"] else None,
        dataset=row["dataset"],
        access_pattern=row["access_pattern"],
        load=row["max_concurrency"] or None,
        metric=row["metric"],
        printed=row["value"],
        unit=row["unit"],
        scale=_SCALES[row["relative_to"]],
        price_usd_per_hour=float(price[1]) if price else None,
        note=row["note"] or None,
    )


def _source(entry: Mapping[str, object]) -> Source:
    given, others = entry.get("tau_examples"), entry.get("presets")
    claims = tuple(TauClaim(str(entry["id"]), **claim) for claim in given) if isinstance(given, list) else ()
    return Source(
        id=str(entry["id"]),
        date=str(entry["date"]),
        title=str(entry["title"]),
        method=str(entry["method"]).strip(),
        preset=str(entry["preset"]) if "preset" in entry else None,
        presets={str(study): str(name) for study, name in others.items()} if isinstance(others, dict) else {},
        tau_examples=claims,
    )
