"""A format of aggregates as a declaration: how its records are recognised, and what their figures become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from interchange.build import build_run
from interchange.fields import Figure, Format, Taken, is_record, of_each_record, take
from interchange.typed_json import Part
from warehouse.bundles.imported_run import ImportedRun

#: Returns labels beside the short values at the top of the record. It may change what was taken, and refuse the record.
Adjust = Callable[[Part, Taken], Mapping[str, str]]


def declared(
    name: str,
    title: str,
    seen_versions: str,
    figures: tuple[Figure, ...],
    notes: Mapping[str, str],
    *,
    keys: Sequence[str],
    needed: Sequence[str] = (),
    tool_version: str = "",
    not_labels: Sequence[str] = (),
    adjust: Adjust = lambda _part, _taken: {},
) -> Format:
    """Return the format of records with these keys: one, a list of some, or one a line.

    `needed` figures must be there. `tool_version` is the key of the tool's version. Each short value at the top of a
    record that no figure declares becomes a label, except `not_labels`.
    """
    of_figures = {figure.path for figure in figures}

    def run(part: Part, place: str) -> ImportedRun:
        taken = take(part, figures, f"a result of {title}", needed)
        own = adjust(part, taken)
        version = part.labels([tool_version]).get(tool_version)
        keys = [key for key in part.content if key not in {*of_figures, *not_labels, tool_version}]
        labels = {**part.labels(keys), **own}
        return build_run(name, part.document, part.content, taken, tool_version=version, place=place, labels=labels)

    return Format(
        name, title, seen_versions, lambda value: is_record(value, *keys), of_each_record(run), figures, notes
    )
