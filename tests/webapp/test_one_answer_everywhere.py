"""Pages, command, API and SQL say the same of a study with decided, inconclusive, failed and invalid parts."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from access.shared_links import Kind
from host.settings import Settings
from lab.advice.metric_lines import METRICS
from lab.metrics.number_format import change, times
from lab.study.plan import plan
from tests.cli.homes import Home, new_home
from tests.lab.studies import DRAFT, study
from tests.warehouse.asking import ask
from tests.webapp.api.inside import inside
from tests.webapp.conftest import OpenPage
from tests.webapp.homes import finish, running_job
from tests.webapp.measured import write_run
from tests.webapp.page_text import words
from warehouse.ingest.service import ingest_all
from webapp.links.content import content_of
from webapp.pages import PAGES

ARMS = [
    {"name": "no draft"},
    {"name": "draft", "speculation": DRAFT},
    {"name": "n-gram", "speculation": {"method": "ngram", "num_speculative_tokens": 2}},
]
LOADS = [{"max_concurrency": streams, "num_prompts": 8 * streams} for streams in (1, 4)]
ANSWERS = """
    SELECT metric, arm, concurrency, ratio, low, high, better, worse, inconclusive FROM answers
    WHERE job_id = '{}' AND is_default
"""


@pytest.fixture
def job_id(settings: Settings) -> str:
    """The draft is faster at concurrency 1; runs at 4 scatter; a run of n-gram failed, another is invalid."""
    asked = study(name="all kinds", repeats=4, arms=ARMS, loads=LOADS, price_usd_per_hour=3.6)
    rng = np.random.default_rng(11)
    job_id = running_job(settings, asked, runs_total=24, runs_done=24, runs_failed=1, end_reason="complete")
    for launch in plan(asked):
        for run in launch.runs:
            scatter = 0.4 if run.load.max_concurrency == 4 else 0.01
            is_ngram = run.arm.name == "n-gram" and run.load.max_concurrency == 1
            write_run(
                settings,
                asked,
                run,
                job_id,
                launch.index,
                failed=is_ngram and run.repeat == 0,
                miscounted=is_ngram and run.repeat == 1,
                slower=float(np.exp(scatter * rng.standard_normal())),
            )
    finish(settings, job_id, "done")
    ingest_all(settings)
    return job_id


def lines_on(page: AppTest) -> list[str]:
    """The lines of metrics on a page, without their icons."""
    plain = re.sub(r":gray\[(.+?)\] *$", r"\1", words(page), flags=re.MULTILINE)
    plain = re.sub(r":\w+\[:material/\w+:\] ?|\*\*", "", plain)
    return [line.strip() for line in plain.splitlines() if line.startswith(tuple(METRICS.values()))]


def follow_up_in(text: str) -> str:
    (found,) = set(re.findall(r"\S+ of \d+ comparisons (?:is|are) inconclusive\. A follow-up of .+?\.(?=\s|$)", text))
    return re.sub(r" \(about [^)]+\)", "", found)


def said_by(home: Home, *arguments: str) -> str:
    answer = home.ask(*arguments)
    assert answer.returncode == 0, answer.stderr
    return " ".join(answer.stdout.split())


def test_pages_command_api_and_sql_say_the_same(job_id: str, settings: Settings, open_page: OpenPage) -> None:
    results, home = open_page("results", job=job_id), new_home(settings.home)
    lines = lines_on(results)
    with inside(settings) as client:
        answer: dict[str, Any] = client.get(f"/api/v1/studies/{job_id}/answer").json()
    assert [line["sentence"] for line in answer["lines"]] == lines
    printed = said_by(home, "advise", job_id)
    assert all(line in printed for line in lines)
    assert json.loads(home.ask("advise", job_id, "--json").stdout)["answer"]["lines"] == answer["lines"]
    assert lines[0] in lines_on(open_page("home"))
    assert all(line in said_by(home, "report", job_id).replace("\\", "") for line in lines)

    # What is decided comes first; what is not says so.
    decided = [line["is_decided"] for line in answer["lines"]]
    assert decided == sorted(decided, reverse=True)
    assert {line["metric"] for line in answer["lines"]} == set(METRICS)

    # SQL has the numbers of the lines.
    rows = {row[0]: row[1:] for row in ask(settings, ANSWERS.format(job_id))}
    for line in answer["lines"]:
        arm, concurrency, ratio, low, high, better, worse, inconclusive = rows[line["metric"]]
        assert line["is_decided"] or (arm, better + worse) == (None, 0)
        if arm is not None:
            where = "over all " if concurrency is None else f"at concurrency {concurrency}: "
            assert where in line["sentence"]
            assert f": {change(ratio, low, high, strict='(strict' in line['sentence'])}, {arm}" in line["sentence"]
        if better:
            assert f"{better} of {better + worse + inconclusive} comparisons better" in line["sentence"]

    # One plan of what to measure next, on the page, in the command, in the API and on the form that the button opens.
    follow_up = follow_up_in(words(results))
    assert follow_up_in(printed) == follow_up
    assert follow_up_in(" ".join(answer["sentences"])) == follow_up
    form = open_page("submit", from_job=job_id, decide="output_tok_per_s")
    assert follow_up_in(words(form)) == follow_up
    (button,) = [link.proto.label for link in results.get("page_link") if "follow-up" in link.proto.label]
    what = follow_up.partition("A follow-up of ")[2]
    assert what.startswith(button.replace("\\", "").removeprefix("Set up the follow-up: ").partition(", about")[0])
    repeats = next(field.value for field in form.number_input if field.label == "Repeats")
    assert what.startswith(f"{repeats} repeats")


def test_failed_and_invalid_runs_are_counted_alike(job_id: str, settings: Settings, open_page: OpenPage) -> None:
    ((completed, invalid, failed),) = ask(
        settings,
        f"""
        SELECT count(*) FILTER (status = 'completed'), count(*) FILTER (status = 'completed' AND is_valid = false),
            count(*) FILTER (status = 'failed') FROM results WHERE job_id = '{job_id}'
        """,
    )
    assert (completed, invalid, failed) == (23, 1, 1)
    front, queue = open_page("home"), open_page("jobs", job=job_id)
    assert "Measured here: 23 runs in 1 study of 1 target; 1 failed, 1 invalid." in words(front)
    results = words(open_page("results", job=job_id))
    assert "1 failed, 1 invalid, " in results
    lost = "1 of 24 runs failed, 1 invalid"
    for page in (results, *(words(open_page(name, job=job_id)) for name in ("compare", "deploy"))):
        assert f"{lost}. Charts and comparisons leave them out." in page
    for command in ("compare", "advise"):
        assert "lost runs: 1 failed, 1 invalid" in said_by(new_home(settings.home), command, job_id)

    # How it ended, in a sentence and in the words of tables.
    ended = f"done, {lost}"
    assert ended in results
    assert ended in words(queue)
    assert "Complete" not in words(queue)
    tables = [page.dataframe[0].value.iloc[0] for page in (front, queue)]
    assert [row["state"] for row in tables] == [["some failed"]] * 2
    assert [row["runs"] for row in tables] == ["23 of 24, 1 failed, 1 invalid", "24 of 24, 1 failed, 1 invalid"]
    assert "22 valid runs on 12 engine starts · besides 1 failed, 1 invalid" in said_by(
        new_home(settings.home), "report", job_id
    )
    shared = content_of(Kind.STUDY, job_id)
    assert shared is not None
    assert f"{lost}." in shared.lines
    with inside(settings) as client:
        one, listed = client.get(f"/api/v1/jobs/{job_id}").json(), client.get("/api/v1/jobs").json()["jobs"]
    (printed,) = json.loads(new_home(settings.home).ask("jobs", "--json").stdout)
    for document in (one, *listed, printed):
        assert (document["state"], document["outcome"], document["runs_invalid"]) == ("done", ended, invalid)
    assert "some failed 24/24 (1 failed, 1 invalid)" in said_by(new_home(settings.home), "jobs")

    # The mean over all cells is of the repeats that have them all: everywhere the same one, which says so.
    ngram = said_by(new_home(settings.home), "compare", job_id, "--table").partition("n-gram")[2]
    (mean,) = re.findall(r"whole sweep: (\S+×)", ngram)
    assert re.search(rf"reference/code/16 .+ {mean} \[unknown\] geometric mean .+ {mean} whole sweep", ngram)
    assert f"\n{mean}\n" in results
    assert ", from the 2 of 4 repeats that are valid in every cell" in results
    heat = PAGES["compare"].figures({"job": (job_id,)}, "light")[0].rows
    assert times(heat[heat["is_mean"] & (heat["arm"] == "n-gram")]["ratio"].item()) == mean
