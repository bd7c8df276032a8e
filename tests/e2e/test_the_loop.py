"""The whole way, as a user goes it: a study from the browser, a real vLLM, the page, and SQL by anybody's DuckDB."""

from __future__ import annotations

import csv
import json
import re
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest
from playwright.sync_api import Page, expect

from tests.cli.homes import Home

pytestmark = [pytest.mark.engine, pytest.mark.browser, pytest.mark.timeout(1800)]

STUDY = """
name = "end to end <b>*study*</b>"
target = "reference"

[engine_flags]
max-model-len = 1024
max-num-seqs = 16
enforce-eager = true
dtype = "float32"
enable-prefix-caching = false

[[arms]]
name = "no draft"
baseline = true

[[arms]]
name = "draft k=3"
[arms.speculation]
method = "draft_model"
model = "reference-draft"
num_speculative_tokens = 3

[[workloads]]
category = "code"
output_tokens = 24

[[loads]]
max_concurrency = 1
num_prompts = 3

[[loads]]
max_concurrency = 4
num_prompts = 8
"""
RUNS = 4


class Reader(threading.Thread):
    """Another process's notebook, so to speak: opens the published file again and again and notes what it sees."""

    def __init__(self, file: Path) -> None:
        super().__init__(daemon=True)
        self.file, self.stop = file, threading.Event()
        self.errors: list[str] = []
        self.seen_at_s: dict[str, float] = {}
        self.opened = 0

    def wait_for(self, run_ids: set[str]) -> None:
        """Other tests may have measured in this home before: it is these runs that count."""
        deadline_s = time.monotonic() + 120
        while missing := run_ids - self.seen_at_s.keys():
            assert time.monotonic() < deadline_s, missing
            time.sleep(0.1)

    def run(self) -> None:
        while not self.stop.wait(0.25):
            try:
                with duckdb.connect(str(self.file), read_only=True) as connection:
                    rows = connection.execute("select run_id from results where origin = 'measured'").fetchall()
            except duckdb.Error as error:
                self.errors.append(str(error))
            else:
                self.opened += 1
                for (run_id,) in rows:
                    self.seen_at_s.setdefault(run_id, time.time())


@contextmanager
def reading(file: Path) -> Iterator[Reader]:
    reader = Reader(file)
    reader.start()
    yield reader
    reader.stop.set()
    reader.join(10)


def submit_in_browser(page: Page, home: Home) -> str:
    """Fill the form from TOML, submit it, and return the job's id that the page shows."""
    page.goto(f"{home.url}/submit")
    expect(page.get_by_role("heading", name="Submit")).to_be_visible()
    page.get_by_text("TOML", exact=True).click()
    text = page.get_by_role("textbox", name="The study in TOML")
    expect(text).to_have_value(re.compile("target"))
    text.fill(STUDY)
    text.press("Control+Enter")
    page.get_by_text("Form", exact=True).click()
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value(tomllib.loads(STUDY)["name"])
    page.get_by_role("button", name="Submit study").click()
    receipt = page.get_by_text(re.compile(r"Submitted as"))
    expect(receipt).to_be_visible()
    found = re.search(r"\d{8}-\d{6}-[0-9a-f]{4}", receipt.inner_text())
    assert found
    return found.group()


def wait_until_ended(home: Home, job_id: str) -> dict[str, Any]:
    deadline_s = time.monotonic() + 1200
    while True:
        jobs = json.loads(home.ask("jobs", "--json").stdout)
        (job,) = [job for job in jobs if job["job_id"] == job_id]
        if job["state"] not in ("queued", "running"):
            return dict(job)
        assert time.monotonic() < deadline_s, job
        time.sleep(2)


@pytest.fixture(scope="module")
def measured(home: Home, browser: Any) -> tuple[str, Reader]:
    """One study, submitted in the browser and run to its end while somebody reads the warehouse."""
    page = browser.new_page()
    with reading(home.folder / "warehouse.duckdb") as reader:
        job_id = submit_in_browser(page, home)
        page.goto(f"{home.url}/jobs?job={job_id}")
        expect(
            page.get_by_text(re.compile(r"starting engine|warming up|measuring", re.IGNORECASE)).first
        ).to_be_visible(timeout=200_000)
        job = wait_until_ended(home, job_id)
        reader.wait_for({folder.name for folder in (home.folder / "bundles" / job_id).iterdir()})
    page.close()
    assert job["state"] == "done", job
    assert job["progress"]["runs_failed"] == 0, home.run("logs", job_id).stdout[-3000:]
    return job_id, reader


def rows(home: Home, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(home.folder / "warehouse.duckdb"), read_only=True) as connection:
        return connection.execute(query).fetchall()


def test_the_warehouse_could_be_read_all_the_while(measured: tuple[str, Reader]) -> None:
    _, reader = measured
    assert reader.opened > 20
    assert not reader.errors


def test_every_run_was_there_while_its_study_went_on(home: Home, measured: tuple[str, Reader]) -> None:
    job_id, reader = measured
    folders = list((home.folder / "bundles" / job_id).iterdir())
    assert len(folders) == RUNS
    late = {folder.name: reader.seen_at_s[folder.name] - folder.stat().st_ctime for folder in folders}
    print(f"seconds from the end of each run to its figures: {late}")
    assert all(seconds >= 0 for seconds in late.values()), late


def test_speculation_really_happened_and_only_where_it_was_asked_for(home: Home, measured: tuple[str, Reader]) -> None:
    job_id, _ = measured
    found = rows(home, f"select method, acceptance_length, num_drafts from results where job_id = '{job_id}'")
    assert len(found) == RUNS
    assert all(length > 1 and drafts > 0 for method, length, drafts in found if method == "draft_model")
    assert all(length is None and not drafts for method, length, drafts in found if method == "none")


def test_the_client_counts_the_tokens_that_the_server_counts(home: Home, measured: tuple[str, Reader]) -> None:
    job_id, _ = measured
    counted = rows(
        home, f"select completion_tokens, server_generation_tokens from results where job_id = '{job_id}' order by 1"
    )
    assert counted == [(72, 72), (72, 72), (192, 192), (192, 192)]


def test_greedy_outputs_with_and_without_draft_agree_for_most_prompts(home: Home, measured: tuple[str, Reader]) -> None:
    job_id, _ = measured
    ((same, pairs),) = rows(
        home,
        f"""select count(*) filter (a.output_text = b.output_text), count(*) from requests a join requests b
        using (job_id, prompt_id, concurrency)
        where job_id = '{job_id}' and a.method = 'none' and b.method = 'draft_model'""",
    )
    assert pairs == 11
    assert same >= 9


def test_what_the_engine_idled_between_cells_is_kept(home: Home, measured: tuple[str, Reader]) -> None:
    job_id, _ = measured
    idle = [s for (s,) in rows(home, f"select idle_before_s from results where job_id = '{job_id}'") if s is not None]
    print(f"seconds between cells: {idle}")
    assert len(idle) == 2
    assert min(idle) >= 0


def test_no_engine_is_left_behind(measured: tuple[str, Reader], home: Home) -> None:
    assert not [
        p
        for p in psutil.process_iter(["cmdline"])
        if str(home.folder) in " ".join(p.info["cmdline"] or []) and "vllm" in " ".join(p.info["cmdline"] or [])
    ]


def test_the_page_shows_the_numbers_of_the_warehouse(home: Home, page: Page, measured: tuple[str, Reader]) -> None:
    job_id, _ = measured
    page.goto(f"{home.url}/results?job={job_id}")
    expect(page.get_by_role("heading", name="Results")).to_be_visible()
    page.get_by_role("tab", name="Runs", exact=True).click()
    page.wait_for_url("**results_tab=Runs**")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).locator("visible=true").click()
    with Path(download.value.path()).open(newline="") as file:
        shown = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert len(shown) == RUNS
    wanted = {f"{v:.6g}" for (v,) in rows(home, f"select output_tok_per_s from results where job_id = '{job_id}'")}
    column = next(name for name in shown[0] if "output_tok_per_s" in name or "tok/s" in name)
    assert {f"{float(row[column]):.6g}" for row in shown} == wanted


def test_a_link_opened_afresh_shows_the_same_study(home: Home, page: Page, measured: tuple[str, Reader]) -> None:
    job_id, _ = measured
    page.goto(f"{home.url}/results?job={job_id}")
    expect(page.get_by_role("heading", name="Results")).to_be_visible()
    study = page.get_by_role("combobox", name="Study")
    expect(study).to_have_value(f"end to end <b>*study*</b> · {job_id}")


def test_the_command_line_gives_the_same_numbers(home: Home, measured: tuple[str, Reader]) -> None:
    job_id, _ = measured
    query = f"select run_id, output_tok_per_s from results where job_id = '{job_id}' order by run_id"
    answer = json.loads(home.run("sql", query, "--json").stdout)
    assert [(row["run_id"], row["output_tok_per_s"]) for row in answer] == rows(home, query)


def test_the_warehouse_can_be_made_again_from_the_bundles(
    home: Home, measured: tuple[str, Reader], tmp_path: Path
) -> None:
    job_id, _ = measured
    copy = Home(tmp_path, home.port)
    (tmp_path / "bundles").symlink_to(home.folder / "bundles")
    assert copy.run("migrate").returncode == 0
    rebuilt = copy.run("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    query = f"select * from results where job_id = '{job_id}' order by run_id"
    assert rows(copy, query) == rows(home, query)


def test_logs_show_the_engines_own_words(home: Home, measured: tuple[str, Reader]) -> None:
    job_id, _ = measured
    assert "vLLM" in home.run("logs", job_id).stdout or "vllm" in home.run("logs", job_id).stdout
