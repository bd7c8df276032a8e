"""The generated part of docs/importing.md. `python -m interchange.docs_table` writes it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from interchange.detect import FORMATS, Format
from interchange.fields import Figure

BEGIN, END = "<!-- fields: begin -->", "<!-- fields: end -->"
DOCUMENT = Path(__file__).parents[1] / "docs" / "importing.md"
_SAME_AS = {"vllm-bench-sweep": "vllm-bench-serve"}


def markdown() -> str:
    """A section per format."""
    return "\n\n".join("\n".join(_section(name, format_)) for name, format_ in FORMATS.items())


def updated(document: str) -> str:
    """The document with the sections that follow from the code. Raises ValueError if its marks are missing."""
    before, _, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"docs/importing.md has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{markdown()}\n\n{END}{after}"


def _section(name: str, format_: Format) -> Iterator[str]:
    yield f"### {format_.title}"
    yield ""
    yield f"`--tool {name}`, tested with files of {format_.seen_versions}."
    yield ""
    if name in _SAME_AS:
        yield f"The fields are those of `{_SAME_AS[name]}`."
        return
    yield "| field | became | remark |"
    yield "|---|---|---|"
    for (_, remark), group in itertools.groupby(format_.fields, key=_metric_and_remark):
        fields = list(group)
        became = dict.fromkeys(f"`{field.becomes}`" if field.becomes else "left out" for field in fields)
        yield f"| {', '.join(_shortened([field.path for field in fields]))} | {', '.join(became)} | {remark} |"
    yield from (f"| `{field}` | {became} | |" for field, became in format_.passthrough.items())


def _metric_and_remark(field: Figure) -> tuple[str, str]:
    """Return the metric without its statistic, and the remark. Neighbours with the same of both share a row."""
    factor = f"× {field.factor:g}" if field.factor != 1.0 else ""
    remark = "; ".join(part for part in (factor, field.words) if part)
    return re.sub(r"_(mean|p\d+)_ms$", "", field.becomes or ""), remark


def _shortened(paths: Sequence[str]) -> Iterator[str]:
    """Yield each path; of one in the same object as the path before it, only the last key."""
    before = ""
    for path in paths:
        parent, _, key = path.rpartition(".")
        yield f"`.{key}`" if parent and parent == before else f"`{path}`"
        before = parent


if __name__ == "__main__":
    DOCUMENT.write_text(updated(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
