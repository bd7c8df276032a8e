"""The Explore page: links become filters and charts, and values that no longer exist are reported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from host.settings import Settings
from interchange.store import import_paths
from lab.errors import UserError
from lab.metrics.number_format import ratio
from tests.actors import ADMIN
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage, ReadStudy
from tests.webapp.homes import failed_job
from tests.webapp.measured import measure_study
from tests.webapp.page_text import charts, words
from tests.webapp.three_arms import three_arms
from warehouse.ingest.service import ingest_all
from webapp.pages.explore import figures
from webapp.pages.explore.page import run_config, run_table, why_nothing
from webapp.pages.explore.selection import EVERY_STUDY, MARKS, parse
from webapp.shared import published_data, url_params


def table(app: AppTest) -> list[str]:
    return list(app.dataframe[-1].value["arm"])


def test_without_parameters_and_after_a_reset_the_newest_study_is_shown(
    open_page: OpenPage, settings: Settings
) -> None:
    measure_study(settings, study(name="older"))
    newest = measure_study(settings, three_arms(name="newer"))
    app = open_page("explore")
    label = url_params.job_label("newer", newest)
    assert app.multiselect(key="study").value == [label]
    assert "Output throughput by concurrency" in words(app)
    assert "12 of" in words(app).replace("*", "")
    assert charts(app) == 2  # a panel for each category
    app.session_state["explore-more"] = True
    app.run()
    app.multiselect(key="arms").select("draft").run()
    app.session_state["explore-more"] = False
    app.selectbox(key="mark").select("ECDF").run()
    assert "4 of" in words(app).replace("*", "")
    assert "Filtered by arm" in words(app)
    assert "Time to first token of single requests" in words(app)
    (reset,) = [button for button in app.button if button.label == "Reset"]
    reset.click().run()
    assert not app.exception
    assert app.multiselect(key="study").value == [label]
    assert "arms" not in [filter_.key for filter_ in app.multiselect]  # folded away, as nothing is chosen there
    assert "12 of" in words(app).replace("*", "")


def test_no_study_at_all_is_every_study_and_published_ones_stand_beside(
    open_page: OpenPage, settings: Settings
) -> None:
    job_id = measure_study(settings, three_arms())
    import_paths(settings, [SAMPLES / "vllm-bench" / "spec-code-c4.json"], labels={"study": "theirs"}, actor=ADMIN)
    ingest_all(settings)
    app = open_page("explore", study=job_id)
    studies = app.multiselect(key="study")
    studies.select("everything published").run()
    assert "58 published (" in words(app)
    assert "friday-night-2025-12" in words(app)
    assert "draft" in table(app)
    app.multiselect(key="study").set_value([]).run()
    assert app.multiselect(key="study").value == ["every study"]
    assert "1 imported (vllm-bench-serve" in words(app)
    assert "completed runs (12 measured, 1 imported, 58 published)" in words(app)


def test_a_link_names_each_of_its_values_that_is_gone(open_page: OpenPage, read_study: ReadStudy) -> None:
    read_study(three_arms())
    app = open_page("explore", categories=["code", "poetry"], mark="Pie", to="yesterday")
    warnings = " ".join(warning.value.replace("\\", "") for warning in app.warning)
    for lost in ("category poetry", "mark Pie", "last day yesterday"):
        assert lost in warnings
    assert app.multiselect(key="categories").value == ["code"]
    assert charts(app) == 1
    app.multiselect(key="categories").select("repeat").run()
    assert "poetry" not in " ".join(warning.value for warning in app.warning)


def test_where_nothing_matches_the_filters_to_blame_are_named(open_page: OpenPage, read_study: ReadStudy) -> None:
    job_id = read_study(three_arms())
    app = open_page("explore", study=job_id, arms="draft", method="ngram")
    assert "No run matches" in words(app)
    dropping = [button.label for button in app.button if button.label.startswith("Drop")]
    assert dropping == ["Drop the filter on arm (4 runs)", "Drop the filter on method (4 runs)"]
    assert charts(app) == 0


def test_a_filter_without_a_match_shows_nothing_until_it_is_dropped(open_page: OpenPage, settings: Settings) -> None:
    measure_study(settings, three_arms())
    failed = failed_job(settings, study(name="failed"), "EngineError: no such model")
    app = open_page("explore", engine="none of ours")
    assert "Engine: none of ours" in words(app)
    assert charts(app) == 0
    app.button(key="drop-engine").click().run()
    assert charts(app) == 2
    app = open_page("explore", job=failed)
    assert f"Study: failed · {failed}" in words(app)
    assert charts(app) == 0
    app = open_page("explore", study="gone · 20260101-000000-0000")
    assert "Study: gone · 20260101-000000-0000" in words(app)
    assert charts(app) == 0
    assert "Shown instead" not in words(app)


def test_invalid_runs_are_left_out_unless_they_are_asked_for(open_page: OpenPage, read_study: ReadStudy) -> None:
    job_id = read_study(three_arms(), miscounted="draft")
    assert "draft" not in table(open_page("explore", study=job_id))
    assert set(table(open_page("explore", study=job_id, validity="invalid"))) == {"draft"}


def test_before_anything_is_measured_what_others_published_is_shown(open_page: OpenPage) -> None:
    app = open_page("explore")
    assert "Nothing has been measured here yet" in words(app)
    assert app.multiselect(key="study").value == ["everything published"]
    assert charts(app) > 0


def test_every_mark_is_drawn_from_its_link_with_its_rows(read_study: ReadStudy) -> None:
    job_id = read_study(three_arms(repeats=2))
    label = url_params.job_label(three_arms().name, job_id)
    for mark in MARKS:
        parameters = {"mark": [str(mark)], "study": [label]}
        (figure,) = figures.figures(parameters, "light")
        shown = figures.shown(parse(parameters), "light")
        arms = ["no draft", "draft", "a first by name"]
        drafting = mark in ("Scatter", "Acceptance")  # of acceptance, which the baseline has not
        assert [style.arm for style in figure.styles] == arms[drafting:]
        rows = {"Scatter": 16, "Acceptance": 2 * 2 * 3}  # runs; arms, categories and positions
        assert len(figure.rows) == rows.get(mark, len(shown.runs if shown.groups is None else shown.groups))
        assert all(chart.to_dict()["layer"] for _, chart in figure.panels)
        assert len(figure.panels) == (6 if mark == "Percentile bands" else 2), mark  # of two categories
    priced = {"mark": ["Pareto"], "frontier": ["TPOT and cost"], "study": [label]}
    cost = figures.shown(parse(priced), "dark")
    assert cost.figure is None
    assert "without cost per million output tokens cannot be drawn" in cost.notes[0]
    assert "No hourly price for AMD EPYC 7B13 (2 cores): set one on Cost." in cost.notes[0]


def test_points_and_legend_have_the_verdict_and_a_click_opens_the_run(
    open_page: OpenPage, read_study: ReadStudy
) -> None:
    job_id = read_study(study(name="judged", repeats=3))
    app = open_page("explore", job=job_id, metric="Speed-up")
    pairs = published_data.compared(job_id, "output_tok_per_s").pairs
    (within,) = (pair.ratio for pair in pairs if pair.cell.concurrency == 1)
    chosen = {"study": app.multiselect(key="study").value, "metric": ["Speed-up"]}
    (figure,) = figures.figures(chosen, "light")
    (arm,) = {pair.candidate.arm for pair in pairs}
    of_cell = figure.rows[(figure.rows["arm"] == arm) & (figure.rows["concurrency"] == "1")]
    assert within is not None
    assert set(of_cell["verdict"]) == {f"▲ faster {ratio(within.value, within.low, within.high)}"}
    assert set(figure.rows.loc[figure.rows["arm"] != arm, "verdict"]) == {"baseline"}
    assert [style.note[:8] for style in figure.styles] == ["", "▲ faster"]

    app.session_state["explore-chosen"] = of_cell["run_id"].iloc[0]
    assert "Output throughput of this cell vs. the baseline" in words(app.run())
    assert "Output throughput of this cell" not in words(app.run())  # it was closed


def test_the_runs_whose_boxes_are_ticked_are_compared_all_of_them(
    open_page: OpenPage, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (measure_study(settings, study(name=name, arms=[{"name": "no draft"}])) for name in ("a", "b"))
    ticked: list[int] = []
    show: Callable[..., object] = st.dataframe

    def tick(*given: object, **more: Any) -> object:
        """Boxes live in the browser: AppTest cannot tick them."""
        shown = show(*given, **more)
        return shown if "on_select" not in more else {"selection": {"rows": ticked}}

    monkeypatch.setattr(st, "dataframe", tick)
    app = open_page("explore", study=EVERY_STUDY, job=second)
    runs = app.dataframe[-1].value
    ours = runs[runs["job_id"].isin([first, second])]
    ticked += runs.index.get_indexer(ours.index).tolist()
    assert len(ticked) == 4
    (compare,) = [button for button in app.run().button if button.label == "Compare the 4 chosen runs"]
    shown = words(compare.click().run())
    assert "Only the **4 chosen runs**" in shown
    assert "Output throughput over no draft" in shown


def test_means_that_mix_what_is_not_told_apart_are_named(read_study: ReadStudy) -> None:
    label = url_params.job_label(three_arms().name, read_study(three_arms()))
    mixed = figures.shown(parse({"study": [label], "facet": ["none"]}), "light")
    assert mixed.notes == ("Some means mix runs that differ in category: split them by panel or colour, or filter.",)
    assert figures.shown(parse({"study": [label]}), "light").notes == ()


def test_a_link_that_names_nothing_is_an_error_to_whoever_draws_it() -> None:
    with pytest.raises(KeyError):
        parse({"mark": ["Pie"]})
    with pytest.raises(ValueError, match="isoformat"):
        parse({"from": ["yesterday"]})


def test_any_percentile_of_a_latency_is_a_metric_in_the_link(open_page: OpenPage, read_study: ReadStudy) -> None:
    job_id = read_study(three_arms(repeats=2))
    link = {"study": [url_params.job_label("small", job_id)], "metric": ["Time per output token, any percentile"]}
    found = figures.shown(parse({**link, "percentile": ["p12.5"]}), "light")
    assert found.figure is not None
    assert found.figure.title == "Time per output token p12.5 by concurrency"
    assert set(found.figure.rows["verdict"]) > {"baseline"}
    assert all(words.endswith(" in output") for words in set(found.figure.rows["verdict"]) - {"baseline"})
    known = figures.shown(parse({**link, "percentile": ["95"]}), "light").runs
    assert parse({**link, "percentile": ["95"]}).metric.column == "tpot_p95_ms"
    assert (found.runs["tpot_p12.5_ms"] <= known["tpot_p95_ms"]).all()
    app = open_page("explore", metric="Time to first token, any percentile", percentile="99.9")
    assert "Time to first token p99.9 by concurrency" in words(app)
    assert "ttft_p99.9_ms" in app.dataframe[-1].value
    assert sorted(set(app.dataframe[-1].value["repeat"])) == [1, 2]
    app.text_input(key="percentile").set_value("100").run()
    assert "'100' is not a valid percentile: enter a number above 0 and below 100, like 97.5" in words(app)


def test_turns_and_contexts_are_dimensions_and_filters_of_requests() -> None:
    ecdf = {url_params.MARK.key: ("ECDF",)}
    wanted = {"x": ("Turn of the session",), "panels": ("Context up to",)}
    assert parse({**wanted, url_params.FACET.key: ("Context up to",)}).of_requests == ("turn", "context")
    scattered = {url_params.MARK.key: ("Scatter",), url_params.SCATTER_X.key: ("Turn of the session",)}
    assert parse(scattered).of_requests == ("turn",)
    assert parse({**ecdf, **wanted}).of_requests == ()  # which has no such axis
    assert parse({**ecdf, url_params.COLOUR.key: ("Turn of the session",)}).of_requests == ("turn",)
    assert parse({**ecdf, "contexts": ("256",)}).of_requests == ("context",)
    with pytest.raises(UserError, match="Inter-token latency is not known by turn or context: choose Time to first"):
        parse({**ecdf, url_params.LATENCY.key: ("Inter-token latency",), "turns": ("1",)})
    with pytest.raises(UserError, match="Pareto needs the throughput, which is not known by turn or context"):
        parse({url_params.MARK.key: ("Pareto",), "turns": ("1",)})


def test_a_metric_of_whole_runs_is_said_to_be_unknown_by_context() -> None:
    said = why_nothing(parse({"x": ("Context up to",)}))
    assert said.startswith("Output throughput is known for whole runs only, not by context: choose a latency")
    nothing = "Nothing to draw: choose another metric or other runs."
    assert why_nothing(parse({"x": ("Context up to",), "metric": ("Acceptance length",)})) == nothing
    assert why_nothing(parse({})) == nothing


def test_the_table_below_says_which_turn_and_context_each_row_is_of() -> None:
    view = parse({"x": ("Turn of the session",), url_params.FACET.key: ("Context up to",)})
    row = {"run_id": "r", "job_id": "j", "arm": "a", "origin": "measured", "concurrency": "2", "tpot_p50_ms": 3.0}
    table = run_table(pd.DataFrame([row | {"turn": "9", "context": "1024"}]), view)
    assert table[["concurrency", "turn", "context"]].to_numpy().tolist() == [[2, 9, 1024]]
    assert {"turn", "context"} <= set(run_config(view))
