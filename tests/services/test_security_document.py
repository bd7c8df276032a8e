"""docs/security.md names every finding of the review, and tests that are there."""

from __future__ import annotations

import re

import pytest

from tests.cli.homes import REPOSITORY

TEXT = (REPOSITORY / "docs" / "security.md").read_text(encoding="utf-8")
FINDINGS = (*("C1", "C2"), *(f"H{number}" for number in range(1, 8)), *(f"M{number}" for number in range(1, 11)))
LOW = 9


def rows() -> dict[str, list[str]]:
    table = TEXT[TEXT.index("## Every finding of the review") :]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines() if line[:1] == "|"]
    return {row[0]: row[1:] for row in cells[2:]}


def named_tests(text: str) -> set[str]:
    """Paths of test files; a bare name is in the folder of the one before it."""
    folder, found = "", set[str]()
    for name in re.findall(r"`((?:tests/)?[\w/]*test_\w+\.py)`", text):
        if "/" in name:
            folder = name.rpartition("/")[0]
        found.add(name if "/" in name else f"{folder}/{name}")
    return found


def test_every_finding_has_one_row_with_what_became_of_it() -> None:
    found = rows()
    assert [name for name in found if not name.startswith("Low: ")] == list(FINDINGS)
    assert sum(name.startswith("Low: ") for name in found) == LOW
    assert all(len(cells) == 3 and all(cells) for cells in found.values())


@pytest.mark.parametrize("name", [*FINDINGS, "Low: CSV formulas", "Low: depth of the sandbox"])
def test_a_finding_names_its_tests(name: str) -> None:
    assert named_tests(rows()[name][2])


def test_every_test_that_the_document_names_is_there() -> None:
    missing = sorted(name for name in named_tests(TEXT) if not (REPOSITORY / name).is_file())
    assert missing == []
