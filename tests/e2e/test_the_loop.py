"""The whole way, as a user goes it: a study from the browser, a real vLLM, the page, and SQL by anybody's DuckDB.

The worker is killed once in the middle of the study, and everything is as if it had not been.
"""

from __future__ import annotations

import csv
import json
import re
import threading
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import psutil
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.cli.homes import Home
from tests.warehouse.runs import records
from tests.webapp.browser.clicks import enter, settled
from tests.workers.engine_runtime.stand_ins import grown
from tests.workers.homes import engine_processes, until
from warehouse.bundles.run_bundle import RUN_FILE, Bundle, find_bundles, read_bundle
from workers.engine_runtime.install import VLLM_VERSION

pytestmark = [pytest.mark.engine, pytest.mark.browser, pytest.mark.timeout(5400)]

STUDY = """
name = "end to end <b>*study*</b>"
target = "reference"

[engine_flags]
max-model-len = 1024
max-num-seqs = 16
enforce-eager = true
dtype = "float32"
distributed-executor-backend = "uni"

[[arms]]
name = "no draft"
baseline = true

[[arms]]
name = "draft k=3"
[arms.speculation]
method = "draft_model"
model = "reference-draft"
num_speculative_tokens = 3
[arms.environment]
VLLM_ENABLE_V1_MULTIPROCESSING = "0"

[[workloads]]
category = "code"
output_tokens = 24

[[loads]]
max_concurrency = 1
num_prompts = 3

[[loads]]
max_concurrency = 4
num_prompts = 16
"""
RUNS, TRIES = 4, 5


class Reader(threading.Thread):
    """Another process's notebook, so to speak: opens the published file at each publication and notes what it sees.

    What it sees counts from the moment at which the file was written, however late the machine lets it look.
    """

    def __init__(self, file: Path) -> None:
        super().__init__(daemon=True)
        self.file, self.stop = file, threading.Event()
        self.errors: list[str] = []
        self.seen_at_s: dict[str, float] = {}
        self.opened = 0

    def wait_for(self, run_ids: set[str]) -> None:
        """Other tests may have measured in this home before: it is these runs that count."""
        deadline_s = time.monotonic() + 600
        while missing := run_ids - self.seen_at_s.keys():
            assert time.monotonic() < deadline_s, missing
            time.sleep(0.1)

    def run(self) -> None:
        published_ns = 0
        while not self.stop.wait(0.1):
            before_ns, published_ns = published_ns, self.file.stat().st_mtime_ns
            if published_ns == before_ns:
                continue
            try:
                with duckdb.connect(str(self.file), read_only=True) as connection:
                    rows = connection.execute("select run_id from results where origin = 'measured'").fetchall()
            except duckdb.Error as error:
                self.errors.append(str(error))
            else:
                self.opened += 1
                for (run_id,) in rows:
                    self.seen_at_s.setdefault(run_id, published_ns / 1e9)


@contextmanager
def reading(file: Path) -> Iterator[Reader]:
    reader = Reader(file)
    reader.start()
    yield reader
    reader.stop.set()
    reader.join(600)


def submit_in_browser(page: Page, home: Home) -> str:
    """Fill the form from TOML, submit it, and return the job's id that the page shows."""
    page.goto(f"{home.url}/submit")
    expect(page.get_by_role("heading", name="Submit")).to_be_visible()
    settled(page)
    page.get_by_text("TOML", exact=True).click()
    text = page.get_by_role("textbox", name="The study in TOML")
    expect(text).to_have_value(re.compile("target"))
    enter(page, text, STUDY, key="Control+Enter")
    settled(page)
    page.get_by_text("Form", exact=True).click()
    expect(page.get_by_role("textbox", name="Name", exact=True).first).to_have_value(tomllib.loads(STUDY)["name"])
    settled(page)
    page.get_by_role("button", name="Submit study").click()
    receipt = page.get_by_text(re.compile(r"Submitted as"))
    expect(receipt).to_be_visible()
    match = re.search(r"\d{8}-\d{6}-[0-9a-f]{4}", receipt.inner_text())
    assert match
    return match.group()


def wait_until_ended(home: Home, job_id: str) -> dict[str, Any]:
    deadline_s = time.monotonic() + 1200
    while True:
        jobs = json.loads(home.ask("jobs", "--json").stdout)
        (job,) = [job for job in jobs if job["job_id"] == job_id]
        if job["state"] not in ("queued", "running"):
            return dict(job)
        assert time.monotonic() < deadline_s, job
        time.sleep(2)


@dataclass(frozen=True)
class Measured:
    """The one study, what a reader of the warehouse saw of it, and what the worker left that was killed."""

    job_id: str
    job: dict[str, Any]  # as `drafthouse jobs --json` gives it
    reader: Reader
    before_kill: dict[str, int]  # each run's bundle that was there, and when it was written
    engine_before_kill: set[str]  # the first words of its processes
    engine_outlived_s: float  # how long vLLM ran on after its worker's death


@pytest.fixture(scope="module")
def measured(home: Home, browser: BrowserContext) -> Measured:
    """Submitted in the browser and run to its end while somebody reads the warehouse, the worker killed once."""
    page = browser.new_page()
    with reading(home.folder / "warehouse.duckdb") as reader:
        for _ in range(TRIES):
            job_id = submit_in_browser(page, home)
            page.goto(f"{home.url}/jobs?job={job_id}")
            running = page.get_by_text(re.compile(r"starting engine|warming up|measuring", re.IGNORECASE))
            expect(running.first).to_be_visible()
            killed = worker(home)
            wait_for_a_run(home, job_id)
            killed.suspend()  # its next run takes half a second, in which a busy machine may not come to what follows
            before = written(home, job_id)
            if len(before) == 1:
                break
            killed.resume()  # the machine was too busy to see it in its second run
            home.ask("cancel", job_id)
            wait_until_ended(home, job_id)
        page.close()
        engine = {process.cmdline()[0] for process in engine_processes(home.folder)}
        killed.kill()  # `drafthouse up` starts another one
        outlived_s = until(lambda: not engine_processes(home.folder), "vLLM is gone with its worker", within_s=600)
        job = wait_until_ended(home, job_id)
        reader.wait_for(set(written(home, job_id)))
    assert job["state"] == "done", job
    assert job["progress"]["runs_failed"] == 0, home.run("logs", job_id).stdout[-3000:]
    return Measured(job_id, job, reader, before, engine, outlived_s)


def wait_for_a_run(home: Home, job_id: str) -> None:
    until(lambda: written(home, job_id), "a run", within_s=600)


def written(home: Home, job_id: str) -> dict[str, int]:
    """The bundles of a job: each run's id, and when its record was written, in nanoseconds."""
    bundles = find_bundles(home.folder / "bundles")
    return {folder.name: (folder / RUN_FILE).stat().st_mtime_ns for folder in bundles if folder.parent.name == job_id}


def worker(home: Home) -> psutil.Process:
    (found,) = (
        process
        for process in psutil.process_iter(["cmdline", "environ"])  # without those that end meanwhile
        if "workers.celery_app" in (process.info["cmdline"] or [])
        and (process.info["environ"] or {}).get("DRAFTHOUSE_HOME") == str(home.folder)
    )
    return found


def bundles(home: Home, measured: Measured) -> list[Bundle]:
    return [
        read_bundle(home.folder / "bundles" / measured.job_id / run_id) for run_id in written(home, measured.job_id)
    ]


def rows(home: Home, query: str) -> list[tuple[Any, ...]]:
    with duckdb.connect(str(home.folder / "warehouse.duckdb"), read_only=True) as connection:
        return connection.execute(query).fetchall()


def test_the_warehouse_could_be_read_all_the_while(measured: Measured) -> None:
    assert measured.reader.opened > 1
    assert not measured.reader.errors


def test_runs_before_another_engine_starts_were_there_while_their_study_went_on(home: Home, measured: Measured) -> None:
    """The two of the last engine are over within seconds, in which a busy machine may publish neither."""
    ended_s = datetime.fromisoformat(measured.job["finished_at"]).timestamp()
    when = sorted(written(home, measured.job_id).items(), key=lambda item: item[1])
    assert len(when) == RUNS
    late = {run_id: measured.reader.seen_at_s[run_id] - at_ns / 1e9 for run_id, at_ns in when}
    print(f"seconds from the end of each run to its figures: {late}")
    assert all(measured.reader.seen_at_s[run_id] < ended_s for run_id, _ in when[:-2]), late


def test_vllm_is_gone_with_its_killed_worker(measured: Measured) -> None:
    print(f"kill -9 of the worker to the end of vLLM: {measured.engine_outlived_s:.1f} s")
    assert "VLLM::EngineCore" in measured.engine_before_kill


def test_what_the_killed_worker_had_measured_stays_and_nothing_is_measured_twice(
    home: Home, measured: Measured
) -> None:
    assert len(measured.before_kill) == 1
    assert measured.before_kill.items() <= written(home, measured.job_id).items()
    assert len({bundle.run.cell_key for bundle in bundles(home, measured)}) == RUNS


def test_every_bundle_has_what_the_engine_told(home: Home, measured: Measured) -> None:
    for bundle in bundles(home, measured):
        run, circumstances = bundle.run, bundle.run.circumstances
        print(f"{run.arm.name} {run.load.name}: {run.duration_s} s, idle {run.idle_before_s}, {circumstances.start_s}")
        requests = records(bundle.requests)
        assert [request.completion_tokens for request in requests] == [24] * run.load.num_prompts
        assert [len(request.output_token_ids or ()) for request in requests] == [24] * run.load.num_prompts
        assert grown(run, "generation_tokens") == 24 * run.load.num_prompts
        assert (circumstances.engine_version or "").startswith(VLLM_VERSION)
        assert circumstances.effective_config["enforce_eager"] == "True"
        assert circumstances.target_digest is not None
        drafted = run.arm.name != "no draft"
        assert all((request.spec_drafts is not None) == drafted for request in requests)
        assert all((request.rounds_count is not None) == drafted for request in requests)
        rounds = [
            entry
            for each in requests
            for entry in zip(
                each.rounds_drafted or (), each.rounds_accepted or (), each.rounds_count or (), strict=True
            )
        ]
        assert sum(count for _, _, count in rounds) == (grown(run, "num_drafts") or 0)
        assert sum(tokens * count for tokens, _, count in rounds) == (grown(run, "num_draft_tokens") or 0)
        assert sum(accepted * count for _, accepted, count in rounds) == (grown(run, "num_accepted_tokens") or 0)
        assert ((grown(run, "num_drafts") or 0) > 0) == drafted
        assert not grown(run, "prefix_cache_hits")  # the cell before sent the same prompts, but the cache was reset


def test_speculation_really_happened_and_only_where_it_was_asked_for(home: Home, measured: Measured) -> None:
    job_id = measured.job_id
    arms = rows(home, f"select method, acceptance_length, num_drafts from results where job_id = '{job_id}'")
    assert len(arms) == RUNS
    assert all(length > 1 and drafts > 0 for method, length, drafts in arms if method == "draft_model")
    assert all(length is None and not drafts for method, length, drafts in arms if method == "none")


def test_the_client_counts_the_tokens_that_the_server_counts(home: Home, measured: Measured) -> None:
    job_id = measured.job_id
    counted = rows(
        home, f"select completion_tokens, server_generation_tokens from results where job_id = '{job_id}' order by 1"
    )
    assert counted == [(72, 72), (72, 72), (384, 384), (384, 384)]


def test_greedy_outputs_with_and_without_draft_agree_for_most_prompts(home: Home, measured: Measured) -> None:
    job_id = measured.job_id
    ((same, pairs),) = rows(
        home,
        f"""select count(*) filter (a.output_text = b.output_text), count(*) from requests a join requests b
        using (job_id, prompt_id, concurrency)
        where job_id = '{job_id}' and a.method = 'none' and b.method = 'draft_model'""",
    )
    assert pairs == 19
    assert same >= 16


def test_what_the_engine_idled_between_cells_is_kept(home: Home, measured: Measured) -> None:
    job_id = measured.job_id
    idle = [s for (s,) in rows(home, f"select idle_before_s from results where job_id = '{job_id}'") if s is not None]
    print(f"seconds between cells: {idle}")
    assert len(idle) == 1  # four runs on three engines: the first was killed after one
    assert min(idle) >= 0


def test_no_engine_is_left_behind(home: Home, measured: Measured) -> None:
    assert measured.job_id
    assert engine_processes(home.folder) == []


def test_a_link_opened_afresh_shows_the_study_and_the_warehouses_numbers(
    home: Home, page: Page, measured: Measured
) -> None:
    job_id = measured.job_id
    page.goto(f"{home.url}/results?job={job_id}")
    expect(page.get_by_role("heading", name="Results")).to_be_visible()
    study = page.get_by_role("combobox", name="Study")
    expect(study).to_have_value(f"end to end <b>*study*</b> · {job_id}")
    settled(page)
    page.get_by_role("tab", name="Runs", exact=True).click()
    page.wait_for_url("**results_tab=Runs**")
    settled(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).locator("visible=true").click()
    with Path(download.value.path()).open(newline="") as file:
        shown = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert len(shown) == RUNS
    wanted = {f"{v:.6g}" for (v,) in rows(home, f"select output_tok_per_s from results where job_id = '{job_id}'")}
    column = next(name for name in shown[0] if "output_tok_per_s" in name or "tok/s" in name)
    assert {f"{float(row[column]):.6g}" for row in shown} == wanted


def test_the_command_line_gives_the_same_numbers(home: Home, measured: Measured) -> None:
    job_id = measured.job_id
    query = f"select run_id, output_tok_per_s from results where job_id = '{job_id}' order by run_id"
    answer = json.loads(home.ask("sql", query, "--json").stdout)
    assert [(row["run_id"], row["output_tok_per_s"]) for row in answer] == rows(home, query)


def test_the_warehouse_can_be_made_again_from_the_bundles(home: Home, measured: Measured, tmp_path: Path) -> None:
    job_id = measured.job_id
    copy = Home(tmp_path, home.port)
    (tmp_path / "bundles").symlink_to(home.folder / "bundles")
    assert copy.ask("migrate").returncode == 0
    rebuilt = copy.ask("rebuild")
    assert rebuilt.returncode == 0, rebuilt.stderr
    query = f"select * from results where job_id = '{job_id}' order by run_id"
    assert rows(copy, query) == rows(home, query)


def test_logs_show_the_engines_own_words(home: Home, measured: Measured) -> None:
    job_id = measured.job_id
    assert "vllm" in home.ask("logs", job_id).stdout.lower()
