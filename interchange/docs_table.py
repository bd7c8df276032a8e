"""The generated part of docs/importing.md. `python -m interchange.docs_table` writes it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from interchange.fields import Figure, Format
from interchange.formats import FORMATS

BEGIN, END = "<!-- fields: begin -->", "<!-- fields: end -->"
#: A statistic in a field's name, which the page writes as `*`.
_STATISTIC = re.compile(
    r"(?<![a-z0-9])(mean|avg|average|median|min|max|std|stddev|p?\d\d(\.\d+)?)(?![a-z0-9])", re.IGNORECASE
)
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
    yield f"`{format_.name}`, {format_.seen_versions}"
    yield ""
    first = next(other for other in FORMATS.values() if other.figures is format_.figures)
    if first is not format_:
        yield f"The fields are those of `{first.name}`."
        return
    figures = [figure for figure in format_.figures if figure.becomes]
    starred = {figure.path: _STATISTIC.sub("*", figure.path) for figure in figures}
    times = Counter(starred.values())
    lines: dict[str, dict[str, list[str]]] = {}
    for figure in figures:
        star = starred[figure.path]
        column, remark = _becomes(figure)
        lines.setdefault(column, {}).setdefault(remark, []).append(star if times[star] > 1 else figure.path)
    plain, remarked = [], []
    for column, fields in lines.items():
        named = "; ".join(
            ", ".join(_shortened(list(dict.fromkeys(paths)))) + (f" ({remark})" if remark else "")
            for remark, paths in fields.items()
        )
        if any(fields):
            remarked.append(f"- {named}: {column}")
        else:
            plain.append(named if named == column else f"{named}: {column}")
    if plain:
        yield f"- {'; '.join(plain)}"
    yield from remarked
    yield from (f"- `{field}`: {became}" for field, became in format_.notes.items())


def _becomes(figure: Figure) -> tuple[str, str]:
    """Return the column, without its statistic, and the remark. Fields of one column share a line."""
    column = re.sub(r"_(mean|p\d+)_ms$", "_*_ms", figure.becomes or "")
    return f"`{column}`", figure.remark


def _shortened(paths: Sequence[str]) -> Iterator[str]:
    """Yield each path, or only its last key if it is in the same object as the previous path."""
    before = ""
    for path in paths:
        parent, _, key = path.rpartition(".")
        yield f"`.{key}`" if parent and parent == before else f"`{path}`"
        before = parent


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
