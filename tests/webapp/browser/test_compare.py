"""Links of the Compare and Advice pages in a real browser, and the way from an inconclusive verdict to the form."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.lab.studies import study
from tests.webapp.browser.clicks import choose, has_parameters, heading, parameters, settled
from tests.webapp.browser.conftest import Server
from tests.webapp.measured import measure_study
from tests.webapp.three_arms import ARMS, OTHERWISE

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]
_PNG = b"\x89PNG\r\n\x1a\n"
_CHARTS = "[data-testid=stVegaLiteChart] canvas, [data-testid=stVegaLiteChart] svg"


def test_links_to_a_comparison_and_to_advice_show_others_the_same(server: Server, page: Page, other: Page) -> None:
    job_id = measure_study(server.settings, study(name="linked", arms=ARMS), writes={"n-gram": OTHERWISE})
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{server.url}/compare?job={job_id}")
    heading(page, "Compare")
    choose(page, "Baseline", "draft")
    page.wait_for_url(re.compile("baseline=draft"))
    choose(page, "Candidates", "n-gram")
    page.wait_for_url(re.compile("candidate=n-gram"))
    page.keyboard.press("Escape")
    choose(page, "^Load$", "c4-n8")
    page.wait_for_url(re.compile("at_load=c4-n8"))
    settled(page)
    page.get_by_text("50 % of 8 prompts got the same greedy output").wait_for()
    other.goto(page.url)
    heading(other, "Compare")
    other.get_by_text("50 % of 8 prompts got the same greedy output").wait_for()
    other.locator(_CHARTS).first.wait_for()
    has_parameters(other, parameters(page))
    other.get_by_text("[a](http://b)").filter(visible=True).first.wait_for()
    assert other.locator("[data-testid=stMain] .katex, a[href='http://b']").count() == 0

    page.goto(f"{server.url}/deploy?job={job_id}&draft_cost=0.2")
    heading(page, "Deploy")
    expect(page.get_by_role("spinbutton", name="Draft cost")).to_have_value("0.200")
    page.locator(_CHARTS).first.wait_for()
    page.goto(f"{server.url}/results?job={job_id}")
    heading(page, "Results")
    settled(page)
    page.get_by_role("link", name=re.compile("^.*Set up the follow-up: 3 repeats")).click()
    heading(page, "Submit a study")
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value("linked")
    expect(page.get_by_role("spinbutton", name="Repeats")).to_have_value("3")
    assert complaints == []


def test_the_report_downloads_as_markdown_with_its_picture(server: Server, page: Page, tmp_path: Path) -> None:
    job_id = measure_study(server.settings, study(name="to report", arms=ARMS, repeats=3))
    page.goto(f"{server.url}/compare?job={job_id}&reading=no+false+call+in+the+table")
    heading(page, "Compare")
    settled(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Report (Markdown)").click()
    assert download.value.suggested_filename == f"report-{job_id}-output_tok_per_s.zip"
    download.value.save_as(tmp_path / "report.zip")
    with zipfile.ZipFile(tmp_path / "report.zip") as files:
        assert files.namelist() == ["report.md", "report.png"]
        assert files.read("report.png").startswith(_PNG)
        text = files.read("report.md").decode()
    assert text.startswith("## to report: output throughput against no draft\n")
    assert "](report.png)" in text
    assert f"]({server.url}/compare?job={job_id}&" in text
    assert "strict reading (Holm)" in text.splitlines()[-1]
