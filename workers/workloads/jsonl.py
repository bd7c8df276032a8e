"""A dataset that the user brings: one JSON object a line, with a prompt and perhaps a category."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lab.errors import UserError


class Row(BaseModel):
    """One line. Keys that other tools write beside these (a source, an expected answer) are left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    prompt: str = Field(min_length=1, pattern=r"\S")
    category: str | None = Field(default=None, min_length=1)


def rows(path: str | Path) -> list[Row]:
    """Every row of the file; blank lines do not count. Raises UserError naming the line that is wrong."""
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(f"dataset {path}: there is no such file; name a JSONL file, or use reference") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"dataset {path} cannot be read: {error}") from None
    return [_row(path, number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]


def _row(path: str | Path, number: int, line: str) -> Row:
    try:
        return Row.model_validate_json(line)
    except ValidationError as error:
        raise UserError(f"dataset {path}, line {number}: {_reason(error)}") from None


def _reason(error: ValidationError) -> str:
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"this is not valid JSON: {first['ctx']['error']}"
    if not first["loc"]:
        return 'a row is a JSON object like {"prompt": "...", "category": "code"}'
    if first["type"] == "missing":
        return "the row has no prompt"
    return f"{first['loc'][0]} must be text that is not empty, got {str(first['input'])[:80]!r}"
