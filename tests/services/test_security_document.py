"""docs/security.md names tests that are there."""

from __future__ import annotations

import re

from tests.cli.homes import REPOSITORY

TEXT = (REPOSITORY / "docs" / "security.md").read_text(encoding="utf-8")


def test_every_test_that_the_document_names_is_there() -> None:
    """A bare name is in the folder of the path before it."""
    folder, named = "", list[str]()
    for name in re.findall(r"`((?:tests/)?[\w/]*test_\w+\.py)`", TEXT):
        folder = name.rpartition("/")[0] or folder
        named.append(f"{folder}/{name.rpartition('/')[2]}")
    assert len(named) > 50
    assert [name for name in named if not (REPOSITORY / name).is_file()] == []
