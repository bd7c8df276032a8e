"""The bar above every page: which study is chosen, and which newer one failed."""

from __future__ import annotations

import pandas as pd
from streamlit.util import calc_hash

from host.settings import Settings
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage
from tests.webapp.homes import failed_job
from tests.webapp.measured import measure_study
from tests.webapp.page_text import words
from webapp.shared import study_picker


def test_the_newest_comparison_is_shown_and_a_newer_failure_named(open_page: OpenPage, settings: Settings) -> None:
    good = measure_study(settings, study(name="demo"))
    without_baseline = measure_study(settings, study(name="demo", repeats=2), failing="no draft")
    assert r"A newer study, demo, has nothing to compare\: 4 of 8 runs failed" in _links(open_page("home"))
    everything_failed = measure_study(settings, study(name="all failed", arms=[{"name": "x"}]), failing="x")
    app = open_page("cost")
    assert app.selectbox(key="job").value == f"demo · {good}"
    assert r"A newer study, all failed, has no valid run\: 2 of 2 runs failed" in _links(app)
    miscounted = measure_study(settings, study(name="miscounted", arms=[{"name": "x"}]), miscounted="x")
    assert r"A newer study, miscounted, has no valid run\: 2 of 2 runs invalid" in _links(open_page("cost"))
    shown = words(open_page("results", job=miscounted))
    assert "Nothing to compare: 2 of 2 runs invalid." in shown
    assert "2 of 2 runs invalid. Charts and comparisons leave them out." in shown
    assert "done, 2 invalid" in shown
    failed = failed_job(settings, study(name="*demo*"), "EngineError: no such model\nTraceback")
    assert r"A newer study, \*demo\*, failed\: EngineError\: no such model" in _links(open_page("home"))
    assert "A newer study" not in _links(open_page("cost", job=without_baseline))
    app = open_page("compare", job=failed)
    assert "This study has no results: it failed (EngineError: no such model)" in words(app)
    assert open_page("compare", job="demo").selectbox(key="job").value == f"demo · {without_baseline}"
    assert open_page("home").selectbox(key="job").value is None
    assert everything_failed in " ".join(open_page("home").selectbox(key="job").options)


def test_without_results_the_pages_name_the_study_that_failed(open_page: OpenPage, settings: Settings) -> None:
    failed_job(settings, study(name="first try"), "EngineError: no such model")
    assert r"The last study, first try, failed\: EngineError\: no such model" in _links(open_page("results"))


def test_the_link_names_a_chosen_study_though_its_page_ends_early(open_page: OpenPage, settings: Settings) -> None:
    good = measure_study(settings, study(name="demo"))
    failed = failed_job(settings, study(name="no results"), "EngineError: no such model")
    app = open_page("results", job=good)
    app.selectbox(key="job").select(f"no results · {failed}").run()
    assert "This study has no results: it failed" in words(app)
    assert app.query_params["job"] == f"no results · {failed}"

    # The change of the study ends with that page: the next link is followed in all that it names.
    app._page_hash = calc_hash("explore")
    app.query_params.clear()
    app.query_params["job"], app.query_params["study"] = failed, f"demo · {good}"
    app.run()
    assert app.multiselect(key="study").value == [f"demo · {good}"]


def _links(app: object) -> str:
    return " ".join(link.proto.label for link in app.get("page_link"))  # type: ignore[attr-defined]


def test_other_programs_are_named_with_what_they_took() -> None:
    runs = pd.DataFrame({"other_cpu_percent": [9.0, 81.2, 40.0]})
    said = "Other programs took up to 81 % of the processors, in 2 of 3 runs over 10 %. "
    said += "On a quiet host repeats differ less."
    assert study_picker.others_sentence(runs) == said
    assert study_picker.others_sentence(runs.iloc[:1]) == ""
    assert study_picker.others_sentence(runs.assign(other_cpu_percent=float("nan"))) == ""
