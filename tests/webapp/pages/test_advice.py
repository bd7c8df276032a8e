"""The Advice page: where to enable what, why, and what to measure next."""

from __future__ import annotations

from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.measured import measure_study
from tests.webapp.pages.test_compare import THREE, charts, words
from warehouse.settings import Settings


def test_each_place_has_a_verdict_its_evidence_and_how_sure_that_is(open_page: OpenPage, settings: Settings) -> None:
    job_id = measure_study(settings, study(arms=THREE, repeats=3))
    app = open_page("advice", job=job_id, advice_tab="Predicted and measured")
    labels = " ".join(expander.label for expander in app.expander)
    assert "**enable: draft with k \\= 3**" in labels or "**enable: draft with k = 3**" in labels
    shown = words(app)
    assert ":green-badge[measured] draft (k = 3) is faster than the baseline" in shown
    assert ":gray-badge[rule of thumb] concurrency 1, under 10: a strong candidate" in shown
    assert f"(run?job={job_id}&run=" in shown
    runs = next(frame.value for frame in app.dataframe if "implied_draft_cost" in frame.value)
    assert len(runs) == 2 * 2 * 3
    assert runs["run_id"].str.startswith(f"run?job={job_id}").all()
    assert charts(app) == 2

    told = open_page("advice", job=job_id, draft_cost="0.2", advice_tab="Predicted and measured")
    runs = next(frame.value for frame in told.dataframe if "implied_draft_cost" in frame.value)
    assert set(runs["draft_cost"]) == {0.2}
    assert set(runs["draft_cost_from"]) == {"as told"}
    assert "a draft cost of 'cheap' is none" in words(open_page("advice", job=job_id, draft_cost="cheap"))


def test_what_is_open_is_filled_into_the_submit_page(open_page: OpenPage, settings: Settings) -> None:
    job_id = measure_study(settings, study(name="open"))
    assert "2 verdicts are open" in words(open_page("advice", job=job_id))
    app = open_page("submit", from_job=job_id, decide="true")
    assert next(field.value for field in app.text_input if field.label == "Name") == "open"
    assert next(field.value for field in app.number_input if field.label == "Repeats") == 3


def test_where_no_arm_speculates_the_page_says_what_to_begin_with(open_page: OpenPage, settings: Settings) -> None:
    job_id = measure_study(settings, study(arms=[{"name": "no draft"}]))
    shown = words(open_page("advice", job=job_id))
    assert "No arm of this study speculates: measure one with 3 drafted tokens" in shown
