"""Figures of one setting together, and a finding about some of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from lab.published.figures import PublishedFigure, PublishedFinding

Figures = Sequence[PublishedFigure]


def by_setting(figures: Figures) -> list[list[PublishedFigure]]:
    """The absolute figures, those of one setting together."""
    groups: dict[object, list[PublishedFigure]] = defaultdict(list)
    for figure in figures:
        if figure.scale == "absolute":
            groups[figure.setting].append(figure)
    return list(groups.values())


def figure_of(group: Figures, metric: str) -> PublishedFigure | None:
    """The figure of that metric; None where there is none, or two that differ."""
    found = [figure for figure in group if figure.metric == metric]
    return found[0] if len({figure.printed for figure in found}) == 1 else None


def finding(check: str, sentence: str, *figures: PublishedFigure) -> PublishedFinding:
    return PublishedFinding(check, figures[0].source, sentence, figures)
