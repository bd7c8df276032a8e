"""The generated part of docs/importing.md. `python -m interchange.docs_table` writes it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from interchange.fields import Figure, Format
from interchange.formats import FORMATS

BEGIN, END = "<!-- fields: begin -->", "<!-- fields: end -->"
DOCUMENT = Path(__file__).parents[1] / "docs" / "importing.md"


def markdown() -> str:
    """Return a section per format."""
    return "\n\n".join("\n".join(_section(format_)) for format_ in FORMATS.values())


def updated(document: str) -> str:
    """Return the document with the sections that follow from the code. Raises ValueError if its marks are missing."""
    before, _, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"docs/importing.md has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{markdown()}\n\n{END}{after}"


def _section(format_: Format) -> Iterator[str]:
    yield f"### {format_.title}"
    yield ""
    yield f"`--tool {format_.name}`, tested with files of {format_.seen_versions}."
    yield ""
    first = next(other for other in FORMATS.values() if other.figures is format_.figures)
    if first is not format_:
        yield f"The fields are those of `{first.name}`."
        return
    for (_, remark), group in itertools.groupby(format_.figures, key=_metric_and_remark):
        figures = list(group)
        became = dict.fromkeys(f"`{figure.becomes}`" if figure.becomes else "left out" for figure in figures)
        if len(became) > 1:  # one latency, whose statistics have the same names in the fields
            became = dict.fromkeys(re.sub(r"_(mean|p\d+)_ms", "_*_ms", name) for name in became)
        paths = ", ".join(_shortened([figure.path for figure in figures]))
        yield f"- {paths}: {', '.join(became)}{f' ({remark})' if remark else ''}"
    yield from (f"- `{field}`: {became}" for field, became in format_.notes.items())


def _metric_and_remark(figure: Figure) -> tuple[str, str]:
    """Return the metric without its statistic, and the remark. Neighbours with the same of both share a line."""
    factor = f"× {figure.factor:g}" if figure.factor != 1.0 else ""
    remark = "; ".join(part for part in (factor, figure.remark) if part)
    return re.sub(r"_(mean|p\d+)_ms$", "", figure.becomes or ""), remark


def _shortened(paths: Sequence[str]) -> Iterator[str]:
    """Yield each path, or only its last key if it is in the same object as the previous path."""
    before = ""
    for path in paths:
        parent, _, key = path.rpartition(".")
        yield f"`.{key}`" if parent and parent == before else f"`{path}`"
        before = parent


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
