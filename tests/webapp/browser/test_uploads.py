"""Uploads of the sizes that people have, through the browser and the server's own limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.webapp.browser.clicks import heading, settled
from tests.webapp.browser.conftest import Server

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]
MIB = 2**20


def prompts_file(path: Path, size_bytes: int, letters: int) -> Path:
    """JSONL with prompts of so many letters."""
    line = json.dumps({"prompt": "x" * letters, "category": "long"}) + "\n"
    path.write_text(line * (size_bytes // len(line) + 1))
    return path


def add_dataset(page: Page, name: str, file: Path) -> None:
    settled(page)
    box = page.get_by_role("textbox", name="Name", exact=True).last
    box.fill(name)
    box.press("Tab")
    settled(page)
    page.locator("[data-testid=stFileUploaderDropzoneInput]").set_input_files(file)
    page.get_by_text(file.name).wait_for()
    button = page.get_by_role("button", name="Check and add")
    expect(button).to_be_enabled()
    settled(page)
    button.click()


def test_a_large_dataset_is_registered_and_a_broken_one_is_refused(server: Server, page: Page, tmp_path: Path) -> None:
    page.goto(f"{server.url}/submit")
    heading(page, "Submit a study")
    settled(page)
    page.get_by_text("Datasets on this host, and adding one").click()
    page.locator("[data-testid=stFileUploaderDropzone]").wait_for()  # and the name beside it
    broken = prompts_file(tmp_path / "broken.jsonl", 3 * MIB, letters=500)
    with broken.open("a") as file:
        file.write("{not JSON\n" * 20)  # more than one row in a thousand
    add_dataset(page, "broken_prompts", broken)
    page.get_by_text(f"broken.jsonl, line {3 * MIB // 535 + 2}: this is not valid JSON").wait_for()
    expect(page.locator("[data-testid=stFileUploaderFile]")).to_have_count(0)
    large = prompts_file(tmp_path / "large.jsonl", 150 * MIB, letters=100_000)
    add_dataset(page, "large_prompts", large)
    page.get_by_text("large_prompts is registered with 1,573 rows").wait_for()
    expect(page.locator("[data-testid=stFileUploaderFile]")).to_have_count(0)
    large.unlink()


def test_a_file_above_the_limit_is_refused_beside_its_name(server: Server, page: Page, tmp_path: Path) -> None:
    page.goto(f"{server.url}/external_results")
    heading(page, "External results")
    settled(page)
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(129 * MIB)
    page.locator("[data-testid=stFileUploaderDropzoneInput]").set_input_files(tmp_path / "huge.json")
    page.get_by_text("File must be 128.0MB or smaller.").wait_for()
    page.get_by_text("Files are refused above 128 MiB.").wait_for()
