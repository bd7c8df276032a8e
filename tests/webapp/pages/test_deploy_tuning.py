"""The Tune page: the setting for each load, what to deploy, and why the rest was left out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lab.comparison.effect import Interval
from lab.study import Study
from tests.lab.studies import DRAFT, study
from tests.webapp.conftest import OpenPage, ReadStudy
from tests.webapp.measured import READY_TO_DRAFT
from tests.webapp.page_text import words
from warehouse.queries.comparing.tunings import answered
from warehouse.queries.connect import open_warehouse
from webapp.pages.deploy import tuning as page
from webapp.pages.deploy import tuning_data as data
from webapp.shared import published_data

HEAD = {"method": "eagle3", "model": "reference-eagle3", "num_speculative_tokens": 3}
ARMS = [{"name": "no draft"}, {"name": "draft", "speculation": DRAFT}, {"name": "head", "speculation": HEAD}]
LOADS = [{"max_concurrency": load, "num_prompts": 16} for load in (1, 4, 16)]


def tuning(**tune: object) -> Study:
    return study(name="to deploy", arms=ARMS, loads=LOADS, tune={"drafted_tokens": [1, 3], **tune})


@pytest.fixture
def tuned(read_study: ReadStudy) -> str:
    """The job: the draft pays at 1 and 4 requests at once, as `measured.RATIOS` says, and nothing pays at 16."""
    return read_study(tuning())


def test_it_shows_the_setting_for_each_load_and_the_command_line(open_page: OpenPage, tuned: str) -> None:
    app = open_page("deploy", job=tuned)
    shown = words(app)
    report = data.tuned(tuned)
    assert report is not None
    assert [(cell.load, cell.k > 0) for cell in report.best] == [(1, True), (4, True), (16, False)]
    assert report.deployed.name in shown
    assert "Loads decided" in shown
    assert page._ENDED[report.ended] in shown
    codes = [block.value for block in app.code]
    assert codes[0].startswith("--speculative-config ")
    schedule = json.loads(codes[1])["options"]["num_speculative_tokens_per_batch_size"]
    assert schedule == [list(range_) for range_ in report.ranges]
    assert schedule[-1][2] == 0


def test_the_answer_and_the_report_judge_the_same_arms_alike(tuned: str) -> None:
    report = data.tuned(tuned)
    comparison = published_data.compared(tuned, "output_tok_per_s")
    with open_warehouse(published_data.settings().warehouse_file) as con:
        pairs = answered(con, comparison).pairs
    of_answer = {(pair.candidate.arm, pair.cell.concurrency): (pair.ratio, pair.verdict.word) for pair in pairs}
    assert report is not None
    of_report = {
        (cell.arm, cell.load): (Interval(cell.ratio or 0.0, cell.low, cell.high), cell.verdict) for cell in report.final
    }
    assert of_answer == of_report
    assert 0 < len(pairs) < len(comparison.pairs)


def test_it_says_what_being_ready_to_draft_costs(open_page: OpenPage, tuned: str) -> None:
    shown = words(open_page("deploy", job=tuned))
    assert f"At 16 requests at once the schedule drafts nothing and is {READY_TO_DRAFT:.2f}" in shown
    assert "slower" in shown


def test_every_setting_says_what_became_of_it(tuned: str) -> None:
    report = data.tuned(tuned)
    assert report is not None
    rows = data.tried(report)
    assert len(rows) == 5 * 3
    assert (rows["fate"] == "chosen").sum() == 3
    assert rows.loc[rows["runs"] == 0, "fate"].str.startswith("not run").all()


def test_a_study_of_fixed_arms_says_how_to_tune_it(open_page: OpenPage, read_study: ReadStudy) -> None:
    job_id = read_study(study())
    assert f"drafthouse tune {job_id}" in words(open_page("deploy", job=job_id))


def test_before_the_first_comparison_it_waits(open_page: OpenPage, read_study: ReadStudy) -> None:
    job_id = read_study(tuning(), failing="no draft")
    assert "No load has a run without speculation" in words(open_page("deploy", job=job_id))


def test_where_no_draft_pays_nothing_is_deployed(open_page: OpenPage, read_study: ReadStudy) -> None:
    loads = [{"max_concurrency": 16, "num_prompts": 16}]
    job_id = read_study(study(arms=ARMS, loads=loads, tune={"drafted_tokens": [1, 3]}))
    assert "No speculation: at no load was a draft shown to be faster" in words(open_page("deploy", job=job_id))


@pytest.mark.parametrize(
    ("ranges", "sentence"),
    [
        (((1, 4096, 3),), "the same at every load"),
        (((1, 8, 3), (9, 32, 1), (33, 4096, 0)), "k = 3 up to 8, 1 up to 32 requests at once, then 0"),
    ],
)
def test_ranges_are_said_in_a_sentence(tuned: str, ranges: object, sentence: str) -> None:
    report = data.tuned(tuned)
    assert report is not None
    assert page.ranges_sentence(replace(report, ranges=ranges)) == sentence  # type: ignore[arg-type]


def test_a_study_without_tuning_links_to_one_for_each_workload(open_page: OpenPage, read_study: ReadStudy) -> None:
    job_id = read_study(study(arms=ARMS, loads=LOADS, tune=None))
    labels = [link.proto.label for link in open_page("deploy", job=job_id).get("page_link")]
    assert "Tune for reference/code/16" in [label.replace("\\", "") for label in labels]
    form = open_page("submit", from_job=job_id, tune="reference/code/16")
    (tune,) = [area.value for area in form.text_area if area.label.startswith("Tuning")]
    assert "drafted_tokens = [" in (tune or "")
