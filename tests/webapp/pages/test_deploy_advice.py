"""The Advice page: where to enable what, why, and what to measure next."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from host.settings import Settings
from interchange.store import import_paths
from lab.advice.advise import advise
from lab.errors import UserError
from lab.metrics.number_format import times
from tests.actors import ADMIN
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.webapp.conftest import MeasuredHome, OpenPage, ReadStudy, using_home
from tests.webapp.homes import make_home
from tests.webapp.measured import measure_study
from tests.webapp.page_text import words
from warehouse.ingest.service import ingest_all
from webapp.pages.deploy import advice as page
from webapp.pages.deploy import advice_figures as figures
from webapp.pages.deploy import advice_tables as tables
from webapp.pages.deploy.advice_data import StudyAdvice, study_advice
from webapp.pages.deploy.by_target import deployments


@pytest.fixture
def settings(measured_home: MeasuredHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    with using_home(measured_home.settings, monkeypatch):
        yield measured_home.settings


@pytest.fixture
def advice(settings: Settings, measured_home: MeasuredHome) -> StudyAdvice:
    assert settings == measured_home.settings
    return study_advice(measured_home.three_arms, None)


def test_each_cell_has_a_verdict_with_its_own_arms_speed_up(advice: StudyAdvice) -> None:
    rows = tables.verdicts(advice.advice, advice.measured)
    assert rows["pattern"].tolist() == ["c1-n4", "c4-n8"]
    low_load = rows.iloc[0]
    assert (low_load["action"], low_load["arm"], low_load["k"]) == ("enable", "draft", 3)
    assert low_load["low"] <= low_load["speedup"] <= low_load["high"]
    assert low_load["speedup"] == pytest.approx(1.41, abs=0.01)
    assert set(rows["action"]) <= set(tables.SIGNS)
    title = page.verdict_title(advice.advice[0]).replace("\\", "")
    assert title.endswith("c1-n4 :gray[(concurrency 1)] **enable: draft (k = 3)**")


def test_the_cards_count_the_verdicts_and_name_the_best_speed_up(advice: StudyAdvice) -> None:
    cards = page.cards(advice)
    assert sum(int(card.value) for card in cards[:3]) == len(advice.advice)
    assert {card.detail for card in cards[:3]} == {"of 2 workloads and loads"}
    best = tables.verdicts(advice.advice, advice.measured).iloc[0]
    assert (cards[3].label, cards[3].value) == (
        "Best established speed-up",
        times(best["speedup"], best["low"], best["high"]),
    )
    assert page.cards(StudyAdvice((), tuple(advise((), ())), ()))[0].value == "0"


def test_each_reason_names_its_basis_and_links_to_its_runs(advice: StudyAdvice) -> None:
    lines = [page.reason_line(line, "job") for line in advice.advice[0].reasons]
    shown = "\n".join(lines).replace("\\", "")
    assert ":green-badge[measured] draft (k = 3) is faster than the baseline" in shown
    assert "of draft's drafted tokens are accepted, over 50 %: try 4 to 5 drafted tokens" in shown
    assert ":gray-badge[rule of thumb]" in shown
    assert "candidate" not in shown, "rules about models on GPUs are silent about runs on a CPU"
    assert f"[1](run?job=job&run={advice.advice[0].reasons[0].run_ids[0]})" in shown


def test_the_checklist_has_each_rule_once_with_the_cells_it_applies_to(advice: StudyAdvice) -> None:
    rules = tables.checklist(advice.advice)
    assert rules["rule"].is_unique
    assert (rules["cells"] >= 1).all()
    assert set(rules["cells"].diff().dropna() <= 0) == {True}


def test_each_run_is_predicted_at_the_draft_cost_of_the_page(
    settings: Settings, measured_home: MeasuredHome, advice: StudyAdvice
) -> None:
    runs = tables.runs(advice.runs)
    assert len(runs) == 2 * 2 * 3
    complete = runs[runs["predicted_speedup"].notna() & runs["speedup"].notna()]
    assert 0 < len(complete) < len(runs)  # the draft costs nothing that could be measured at its lowest concurrency
    at_cost = tables.runs(study_advice(measured_home.three_arms, 0.2).runs)
    assert set(at_cost["draft_cost"]) == {0.2}
    pairs = tables.pairs(runs, "predicted_speedup", "speedup")
    assert pairs["predicted"].tolist() == complete["predicted_speedup"].tolist()
    assert pairs["measured"].tolist() == complete["speedup"].tolist()
    assert isinstance(tables.runs([]), pd.DataFrame)


@pytest.mark.parametrize("text", ["cheap", "-1", "nan", "inf"])
def test_a_draft_cost_that_is_no_number_or_negative_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="is not a valid draft cost: enter a number >= 0"):
        figures.draft_cost({"draft_cost": (text,)})
    assert figures.draft_cost({"draft_cost": ("0.25",)}) == 0.25
    assert figures.draft_cost({}) is None


def test_the_page_shows_verdicts_predictions_and_their_figure(open_page: OpenPage, measured_home: MeasuredHome) -> None:
    job_id = measured_home.three_arms
    app = open_page("deploy", job=job_id, advice_tab="Predicted and measured")
    assert "**enable: draft (k = 3)**" in " ".join(expander.label for expander in app.expander).replace("\\", "")
    runs = next(frame.value for frame in app.dataframe if "implied_draft_cost" in frame.value)
    assert runs["run_id"].str.startswith(f"run?job={job_id}").all()
    assert len(app.get("vega_lite_chart")) == 2
    refused = words(open_page("deploy", job=job_id, draft_cost="cheap"))
    assert "'cheap' is not a valid draft cost: enter a number >= 0" in refused


def test_a_longer_run_of_a_load_replaces_the_shorter_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = make_home(tmp_path)
    with using_home(settings, monkeypatch):
        for name, prompts in (("older", 4), ("newer", 8)):
            measure_study(settings, study(name=name, loads=[{"max_concurrency": 1, "num_prompts": prompts}]))
        rows = deployments("reference")
    assert rows[["concurrency", "load", "study"]].to_dict("list") == {
        "concurrency": [1],
        "load": ["c1-n8"],
        "study": ["newer"],
    }


def test_deploy_says_of_every_load_what_to_run_even_if_nothing_is_decided(
    open_page: OpenPage, measured_home: MeasuredHome, read_study: ReadStudy
) -> None:
    decided = "What to run for **reference**, at each load by the newest study that decided it:"
    assert decided in words(open_page("deploy", job=measured_home.three_arms))
    app = open_page("deploy", job=read_study(study(name="one repeat")))
    assert "No study has decided yet what to run for **reference**:" in words(app)
    assert "Deploy ? inconclusive" not in words(app)
    assert "On the engine's command line" not in [expander.label for expander in app.expander]


def test_what_is_inconclusive_is_filled_into_the_submit_page(open_page: OpenPage, measured_home: MeasuredHome) -> None:
    shown = words(open_page("results", job=measured_home.one_repeat))
    assert "All 2 comparisons are inconclusive. A follow-up of 3 repeats would show how much runs vary" in shown
    app = open_page("submit", from_job=measured_home.one_repeat, decide="output_tok_per_s")
    assert next(field.value for field in app.text_input if field.label == "Name") == "one repeat"
    assert next(field.value for field in app.number_input if field.label == "Repeats") == 3


def test_where_no_speculating_arm_is_valid_the_page_says_what_to_measure(
    open_page: OpenPage, measured_home: MeasuredHome, read_study: ReadStudy
) -> None:
    said = "No speculating arm has a valid run beside the baseline: measure one with 3 drafted tokens next"
    assert said in words(open_page("deploy", job=measured_home.baseline_only))
    invalid = read_study(study(), miscounted="draft")
    assert said in words(open_page("deploy", job=invalid))


def test_results_of_an_unknown_target_get_no_proposal(
    open_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = make_home(tmp_path / "imported")
    with using_home(home, monkeypatch):
        (file,) = (SAMPLES / "genai-bench" / "spec-d64x48-c4").glob("D64*")
        (job_id,) = import_paths(home, [file], actor=ADMIN).jobs
        ingest_all(home)
        shown = words(open_page("deploy", job=job_id))
    assert "What to run is collected by target, and that of this study is unknown." in shown
    assert "What to run for" not in shown
