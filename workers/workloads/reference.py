"""The reference prompts: kinds of text that the reference pair was trained on, one file a category."""

from __future__ import annotations

from lab.errors import UserError
from warehouse.settings import Settings
from workers.workloads import jsonl


def rows(settings: Settings) -> list[jsonl.Row]:
    """All rows of all categories. Raises UserError when the reference models were not prepared yet."""
    folder = settings.models_dir / "prompts"
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise UserError(f"{folder} holds no prompts: run `make models`")
    return [row for file in files for row in jsonl.rows(file)]
