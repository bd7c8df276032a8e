"""Whether the figures of a table can stand beside each other: copies, contradictions, totals."""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import combinations

from lab.published.checks.grouping import Figures, by_setting, figure_of, finding
from lab.published.figures import PublishedFigure, PublishedFinding

_LENGTHS = re.compile(r"\S+ (\d+)/(\d+)")
#: Fewest equal figures of two machines that are no coincidence.
_FEWEST_EQUAL = 2
#: How far total throughput may be from what lengths and output throughput say: prompts are a token or two off.
_LENGTH_TOLERANCE = 0.005


def identical_tables(figures: Figures) -> list[PublishedFinding]:
    """Figures of two machines that are the same to the last digit."""
    tables: dict[tuple[str, str], dict[str, dict[object, PublishedFigure]]] = defaultdict(lambda: defaultdict(dict))
    for figure in figures:
        if figure.scale == "absolute":
            tables[figure.source, figure.study][figure.hardware][figure.row, figure.metric] = figure
    found = []
    for machines in tables.values():
        for (one, first), (other, second) in combinations(machines.items(), 2):
            shared = first.keys() & second.keys()
            if len(shared) < _FEWEST_EQUAL or any(first[key].printed != second[key].printed for key in shared):
                continue
            equal = [figure for key, figure in first.items() if key in shared]
            sentence = f"all {len(equal)} figures of {one} and {other} are the same to the last digit"
            found.append(finding("identical_tables", f"{sentence}: one of the two was not measured", *equal))
    return found


def contradictions(figures: Figures) -> list[PublishedFinding]:
    """Two different values for the same thing."""
    groups: dict[object, list[PublishedFigure]] = defaultdict(list)
    for figure in figures:
        groups[figure.setting, figure.metric, figure.scale].append(figure)
    found = []
    for group in groups.values():
        if len({figure.printed for figure in group}) > 1:
            values = " and ".join(figure.printed for figure in group)
            sentence = f"{group[0].metric} is {values} {group[0].unit} in the same setting"
            notes = "".join(f" ({figure.printed}: {figure.note})" for figure in group if figure.note)
            found.append(finding("contradictions", f"{sentence}{notes}", *group))
    return found


def total_throughputs(figures: Figures) -> list[PublishedFinding]:
    """Total / output throughput = (input + output tokens) / output tokens, for prompts of a fixed length."""
    found = []
    for group in by_setting(figures):
        total, output = (figure_of(group, name) for name in ("total_token_throughput", "output_throughput"))
        lengths = _LENGTHS.fullmatch(group[0].dataset)
        if total is None or output is None or lengths is None or not output.value:
            continue
        asked, given = int(lengths[1]), int(lengths[2])
        expected = output.value * (asked + given) / given
        if abs(total.value / expected - 1) > _LENGTH_TOLERANCE:
            sentence = (
                f"{total.printed} tok/s in all beside {output.printed} tok/s of output is no {asked} input and {given} "
                f"output tokens a request, which gives {expected:.2f}: outputs were shorter, or one figure is wrong"
            )
            found.append(finding("total_throughputs", sentence, total, output))
    return found
