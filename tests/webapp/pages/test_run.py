"""The run page: everything behind a number, and a link to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streamlit.testing.v1 import AppTest

from host.settings import Settings
from interchange.export import export
from interchange.store import Import, import_paths
from lab.metrics.catalogue import SAMPLED
from tests.actors import ADMIN
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage, ReadStudy
from tests.webapp.homes import make_home
from tests.webapp.measured import measure_study
from tests.webapp.page_text import words
from warehouse.bundles.run_bundle import LOG_FILE, find_bundles
from warehouse.ingest.service import ingest_all
from warehouse.queries.connect import open_warehouse
from webapp.charts import timeline


def run_ids(app: AppTest) -> list[str]:
    (box,) = [box for box in app.selectbox if box.label == "Run"]
    return [label.rpartition(" · ")[2] for label in box.options]


def test_a_run_shows_its_figures_and_how_it_was_started(open_page: OpenPage, read_study: ReadStudy) -> None:
    read_study(study())
    shown = words(open_page("run", run_tab="How it was run"))
    assert "**no draft, " in shown
    assert "Output throughput" in shown
    assert "**Command**" in shown
    assert "**The arm, from the study**" in shown
    app = open_page("run", run_tab="Numbers")
    numbers = next(frame.value for frame in app.dataframe if "formula" in frame.value)
    assert {"output_tok_per_s", "ttft_p50_ms", "acceptance_length"} <= set(numbers["name"])
    unknown = numbers[numbers["name"] == "gpu_power_mean_w"]["value"].item()
    assert unknown == "–"


def test_the_requests_of_a_run_begin_with_words_of_their_prompts(open_page: OpenPage, read_study: ReadStudy) -> None:
    read_study(study())
    app = open_page("run", run_tab="Requests")
    (requests,) = (frame for frame in app.dataframe if "prompt_begins" in frame.value)
    assert requests.value["prompt_begins"].str.len().between(1, 100).all()
    (run_id,) = (run for run in run_ids(app) if run in words(app))
    assert requests.proto.alt == f"Requests of {run_id}"
    assert run_id in requests.proto.id  # another run has no row of this one chosen


def test_a_link_opens_its_run_and_one_that_is_gone_is_said(open_page: OpenPage, read_study: ReadStudy) -> None:
    job_id = read_study(study())
    last = run_ids(open_page("run"))[-1]
    assert f"· {last}" in words(open_page("run", job=job_id, run=last))
    assert "The run gone in this link does not exist" in words(open_page("run", job=job_id, run="gone"))


def test_a_run_of_another_drafthouse_brings_its_engine_log(
    open_page: OpenPage, settings: Settings, tmp_path: Path
) -> None:
    other = make_home(tmp_path / "other")
    job_id = measure_study(other, study())
    for bundle in find_bundles(other.bundles):
        (bundle / LOG_FILE).write_text("the words of the engine")
    with open_warehouse(other.warehouse_file) as con:
        export(other.bundles, con, job_id, tmp_path / "exported")
    (imported,) = import_paths(settings, [tmp_path / "exported"], actor=ADMIN).jobs
    ingest_all(settings)
    app = open_page("run", job=imported, run_tab="Engine log")
    assert "imported from a folder that another Drafthouse exported" in words(app)
    assert "the words of the engine" in [code.value for code in app.code]
    explored = open_page("explore", job=imported, explore_tab="Slowest prompts")
    assert any("prompt_begins" in frame.value for frame in explored.dataframe)


def test_a_failed_run_shows_its_error_and_no_figures(open_page: OpenPage, read_study: ReadStudy) -> None:
    job_id = read_study(study(), failing="draft")
    failed = next(
        run
        for run in run_ids(open_page("run"))
        if "The run failed with this error" in words(open_page("run", job=job_id, run=run))
    )
    app = open_page("run", job=job_id, run=failed)
    assert "Output throughput" not in words(app)
    (error,) = [code.value for code in app.code if code.value]
    assert error == "EngineError: vllm serve ended with exit code 1: <b>no such head</b> $x$"


def test_an_invalid_run_says_so_and_why(open_page: OpenPage, read_study: ReadStudy) -> None:
    job_id = read_study(study(), miscounted="draft")
    pages = [words(open_page("run", job=job_id, run=run)) for run in run_ids(open_page("run"))]
    (wrong,) = {page.count("server_token_count") for page in pages if ":red-badge[:material/gpp_bad: invalid]" in page}
    assert wrong == 1


requests = st.lists(st.tuples(st.floats(0, 100), st.floats(0.001, 20)), min_size=1, max_size=60)


@given(requests)
def test_lanes_never_overlap_and_are_no_more_than_requests_in_flight(
    times: list[tuple[float, float]],
) -> None:
    frame = pd.DataFrame({"sent_s": [sent for sent, _ in times], "end_s": [sent + took for sent, took in times]})
    shown = timeline.in_lanes(frame.assign(first_token_s=np.nan))
    for _, lane in shown.groupby("lane"):
        assert (lane["sent_s"].to_numpy()[1:] >= lane["until_s"].to_numpy()[:-1]).all()
    most = max(int(((frame["sent_s"] <= moment) & (frame["end_s"] > moment)).sum()) for moment in frame["sent_s"])
    assert shown["lane"].max() + 1 <= most


def test_a_figure_that_is_always_zero_has_an_axis_with_numbers() -> None:
    (figure,) = (metric for metric in SAMPLED if metric.name == "engine_waiting")
    drawn = timeline.second(pd.DataFrame({"t_s": [1.0, 2.0], "engine_waiting": [0, 0]}), figure, "light").to_dict()
    assert drawn["encoding"]["y"]["scale"]["domain"] == [0, 1]


def test_a_figure_with_a_single_sample_has_the_axis_of_the_window() -> None:
    (figure,) = (metric for metric in SAMPLED if metric.name == "engine_waiting")
    telemetry = pd.DataFrame({"t_s": [1.000008, 2.0], "engine_waiting": [0.0, None]})
    drawn = timeline.second(telemetry, figure, "light").to_dict()
    assert drawn["encoding"]["x"]["scale"]["domain"] == [0, 2.0]


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.iterdir() if path.is_dir()))
def test_an_imported_run_shows_its_file_and_origin(
    open_page: OpenPage, imports: dict[str, Import], sample: str
) -> None:
    (job_id, *_), (run, *_) = imports[sample].jobs, imports[sample].runs
    shown = words(open_page("run", job=job_id, run=run.run_id, run_tab="Engine log"))
    assert f"Imported from a file of {run.tool}" in shown
    assert "unknown hardware" in shown
    assert "its file has no engine log" in shown
