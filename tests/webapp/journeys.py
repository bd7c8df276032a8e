"""`make journeys`: ten ways of a new user through the pages, walked in a browser over a home made for it; each says
whether it succeeded, and leaves pictures of where it ended, light and dark, at 1280, 800 and 390 px.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Page, expect

from host.settings import Settings
from services.supervisor import ingester_command
from tests.chromium import chromium
from tests.cli.homes import DRAFTHOUSE, REPOSITORY
from tests.e2e.test_readme import COMMANDS
from tests.lab.studies import DRAFT, study
from tests.webapp import screenshots
from tests.webapp.browser.clicks import becomes, choose, has_parameters, heading, open_listed, settled
from tests.webapp.browser.conftest import Server, jobs
from tests.webapp.browser.test_dashboards import menu_button, pin
from tests.webapp.browser.test_uploads import MIB, add_dataset, prompts_file
from tests.webapp.homes import environment, failed_job, make_home
from tests.webapp.measured import measure_study
from tests.webapp.served import served
from tests.webapp.three_arms import three_arms
from warehouse.ingest.service import ingest_all

WIDTHS_PX = (1280, 800, 390)
SAMPLE = REPOSITORY / "tests/interchange/samples/vllm-bench"
_NAME = "demo"  # of the README
P95 = (
    "select r.arm, r.concurrency, quantile_cont(q.ttft_ms, 0.95) as p95_ttft_ms from requests q "
    "join results r using (run_id) group by all order by all"
)


@dataclass(frozen=True)
class Walk:
    """Where a journey happens."""

    server: Server
    page: Page
    other: Page
    scratch: Path
    job_id: str
    tuned: str

    def open(self, path: str, title: str) -> None:
        self.page.goto(f"{self.server.url}/{path}")
        heading(self.page, title)
        settled(self.page)

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        variables = os.environ | environment(self.server.settings)
        return subprocess.run(
            (DRAFTHOUSE, *arguments), cwd=REPOSITORY, env=variables, capture_output=True, text=True, check=False
        )


def home_answers(walk: Walk) -> None:
    walk.open("home", "Home")
    expect(walk.page.get_by_text("Latest answer per target")).to_be_visible()


def a_study_is_submitted_once(walk: Walk) -> None:
    walk.open("submit?preset=demo", "Submit a study")
    name = walk.page.get_by_role("textbox", name="Name", exact=True).first
    name.fill("from a journey")
    walk.page.get_by_role("button", name="Submit study").dblclick()
    expect(walk.page.get_by_role("button", name="Submitted")).to_be_visible()
    open_listed(walk.page, "Jobs")
    expect(walk.page.get_by_text("from a journey").filter(visible=True).first).to_be_visible()
    assert [job.name for job in jobs(walk.server)].count("from a journey") == 1


def a_dataset_of_3_mib_is_added(walk: Walk) -> None:
    walk.open("submit", "Submit a study")
    walk.page.get_by_text("Datasets on this host, and adding one").click()
    expect(walk.page.locator("[data-testid=stFileUploaderDropzone]")).to_be_visible()
    add_dataset(walk.page, "three_mib", prompts_file(walk.scratch / "three.jsonl", 3 * MIB, letters=500))
    expect(walk.page.get_by_text("three_mib is registered")).to_be_visible()


def verdict_and_cost_agree(walk: Walk) -> None:
    walk.open(f"results?job={walk.job_id}", "Results")
    expect(walk.page.get_by_text(re.compile("1.447× ")).filter(visible=True).first).to_be_visible()
    open_listed(walk.page, "Cost")
    price = walk.page.get_by_role("textbox", name=re.compile("^Price of an hour .USD"))
    price.fill("3.60")
    price.press("Enter")
    expect(walk.page.get_by_text("Hourly price: 3.60 USD")).to_be_visible()
    settled(walk.page)


def a_question_is_asked_in_sql(walk: Walk) -> None:
    walk.open("sql", "SQL")
    field = walk.page.get_by_role("textbox", name="SQL", exact=True)
    for text, answer in (
        ("delete from runs", re.compile("read-only|SELECT|refused", re.IGNORECASE)),
        ("select nothing_here from runs", re.compile("nothing_here")),
        (
            P95,
            re.compile("rows?, 3 columns"),
        ),
    ):
        field.fill(text)
        field.press("Control+Enter")
        settled(walk.page)
        expect(walk.page.get_by_test_id("stMain").get_by_text(answer).last).to_be_visible()
    walk.other.goto(walk.page.url)
    expect(walk.other.get_by_text(re.compile("rows?, 3 columns"))).to_be_visible()


def a_dashboard_is_pinned_and_exported(walk: Walk) -> None:
    walk.open(f"results?job={walk.job_id}", "Results")
    pin(walk.page, "speedup", "a journey's board", "")
    walk.page.get_by_role("link", name="Open the dashboard").click()
    heading(walk.page, "a journey's board")
    expect(walk.page).to_have_url(re.compile("dashboard=[0-9a-f]{12}"))
    settled(walk.page)
    with walk.page.expect_download() as download:
        menu_button(walk.page, "dashboards-export")
    assert "<html" in Path(download.value.path()).read_text(encoding="utf-8")[:500].lower()


@contextmanager
def ingesting(settings: Settings) -> Iterator[None]:
    """The home's ingester runs."""
    process = subprocess.Popen(ingester_command(), cwd=REPOSITORY, env=os.environ | environment(settings))
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(600)


def _lists_imported(walk: Walk) -> bool:
    """Whether the page, opened anew, shows what was imported."""
    walk.open("external_results", "External results")
    return walk.page.get_by_text("3 runs · vllm-bench-serve").is_visible()


def other_peoples_results_are_imported(walk: Walk) -> None:
    """Three files, one of them of a run in which requests failed: they become a study with results."""
    walk.open("external_results", "External results")
    files = [SAMPLE / f"{name}.json" for name in ("base-code-c4", "spec-code-c4", "spec-somefail-c4")]
    walk.page.locator("[data-testid=stFileUploaderDropzoneInput]").set_input_files(files)
    settled(walk.page)
    study = walk.page.get_by_role("textbox", name="Study", exact=True)
    study.fill("theirs")
    study.press("Tab")
    settled(walk.page)
    walk.page.get_by_role("button", name=re.compile("^(upload_file )?Import$")).click()
    expect(walk.page.get_by_text("Imported 3 runs").filter(visible=True).first).to_be_visible()
    with ingesting(walk.server.settings):
        becomes(walk.page, lambda: _lists_imported(walk), True)
    walk.page.get_by_test_id("stMain").get_by_role("link", name=re.compile("theirs")).first.click()
    heading(walk.page, "Results")
    settled(walk.page)
    assert "job=imported-" in walk.page.url, walk.page.url


def the_study_stays(walk: Walk) -> None:
    walk.open(f"results?job={walk.job_id}", "Results")
    for title in ("Explore", "Compare", "Cost", "Advice"):
        open_listed(walk.page, title)
        settled(walk.page)
        assert walk.job_id in walk.page.url, f"{title}: {walk.page.url}"
    walk.page.go_back()
    heading(walk.page, "Cost")
    walk.page.reload()
    heading(walk.page, "Cost")
    assert walk.job_id in walk.page.url
    open_listed(walk.page, "Explore")
    choose(walk.page, "Metric", "Acceptance rate")
    has_parameters(walk.page, {"job": f"{_NAME} · {walk.job_id}", "metric": "Acceptance rate"})


def the_command_answers(walk: Walk) -> None:
    for arguments, status in (
        (("jobs",), 0),
        (("compare", _NAME), 0),
        (("advise", _NAME), 0),
        (("cost", _NAME), 2),  # nobody entered a price
        (("logs", "nosuch"), 2),
        (("compare", _NAME, "--json"), 0),
    ):
        ended = walk.ask(*arguments)
        assert ended.returncode == status, (
            f"{arguments}: {ended.returncode}, {ended.stdout[-300:]}{ended.stderr[-300:]}"
        )
        if "--json" in arguments:
            json.loads(ended.stdout)
    walk.open(f"compare?job={walk.job_id}", "Compare")


def the_readme_tells_the_truth(walk: Walk) -> None:
    """Each command that it shows, although a newer study of that name has failed; then where its page leads."""
    folder = walk.scratch / "as-in-the-readme"
    folder.mkdir()
    (folder / "var").symlink_to(walk.server.settings.home)
    (folder / ".venv").symlink_to(REPOSITORY / ".venv")
    variables = os.environ | environment(walk.server.settings)
    for command in COMMANDS:
        ended = subprocess.run(
            ("bash", "-c", command), cwd=folder, env=variables, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, f"{command}: {ended.stderr[-300:]}"
        assert ended.stdout.strip(), command
        if " advise " in command:
            assert "1.447× [" in ended.stdout, ended.stdout[:600]
    walk.open("deploy", "Deploy")  # of the newest study with results
    expect(walk.page.get_by_text(re.compile("1.447× ")).filter(visible=True).first).to_be_visible()
    walk.open(f"tune?job={walk.tuned}", "Tune")


JOURNEYS: dict[str, Callable[[Walk], None]] = {
    "1-home": home_answers,
    "2-submit": a_study_is_submitted_once,
    "3-dataset": a_dataset_of_3_mib_is_added,
    "4-verdict-and-cost": verdict_and_cost_agree,
    "5-sql": a_question_is_asked_in_sql,
    "6-dashboard": a_dashboard_is_pinned_and_exported,
    "7-import": other_peoples_results_are_imported,
    "8-study-stays": the_study_stays,
    "9-command": the_command_answers,
    "10-readme-and-tune": the_readme_tells_the_truth,
}


def pictures(page: Page, folder: Path, name: str) -> list[str]:
    """Of what the page shows; what is wider than its window."""
    too_wide = []
    for mode in ("light", "dark"):
        page.emulate_media(color_scheme=mode)
        for width_px in WIDTHS_PX:
            page.set_viewport_size({"width": width_px, "height": 1000})
            page.reload()  # a table keeps the width of the window that it was drawn in
            screenshots.settle(page)
            page.wait_for_timeout(screenshots.GROWING_MS)
            page.screenshot(path=folder / f"{name}-{mode}-{width_px}.png")
            if page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth > innerWidth"):
                too_wide.append(f"{mode}, {width_px} px")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 1000})
    return too_wide


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True, help="the folder for the pictures")
    parser.add_argument("--only", nargs="*", default=list(JOURNEYS), choices=list(JOURNEYS), help="of these journeys")
    asked = parser.parse_args()
    folder: Path = asked.to
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        settings = make_home(Path(scratch))
        head = {"method": "eagle3", "model": "reference-eagle3", "num_speculative_tokens": 3}
        racing = [{"name": "no draft"}, {"name": "draft", "speculation": DRAFT}, {"name": "head", "speculation": head}]
        loads = [{"max_concurrency": load, "num_prompts": 16} for load in (1, 4, 16)]
        tuned = measure_study(settings, study(name="tuned", arms=racing, loads=loads, tune={"drafted_tokens": [1, 3]}))
        job_id = measure_study(settings, three_arms(name=_NAME, repeats=3))
        failed_job(settings, three_arms(name=_NAME), "OSError: nope/not-there is not a valid model identifier")
        ingest_all(settings)
        with served(environment(settings)) as url, chromium() as browser:
            complaints: list[str] = []
            for name, journey in ((name, JOURNEYS[name]) for name in asked.only):
                page, other = browser.new_page(), browser.new_page()
                page.set_default_timeout(60_000)
                screenshots.listen(page, url, complaints)
                try:
                    journey(Walk(Server(settings, url), page, other, Path(scratch), job_id, tuned))
                    print(f"{name}: succeeded", flush=True)
                except Exception:  # noqa: BLE001 - the other journeys are walked too
                    failed += 1
                    print(f"{name}: failed\n{traceback.format_exc(limit=3)}", flush=True)
                is_open = page.url.startswith(url)
                for too_wide in pictures(page, folder, name) if is_open else ():
                    print(f"{name}: wider than its window: {too_wide}", flush=True)
                page.close()
                other.close()
            for complaint in complaints:
                print(f"the browser says: {complaint}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
