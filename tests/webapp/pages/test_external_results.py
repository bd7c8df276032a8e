"""The page of other people's figures: files are imported, published figures stand beside measured ones."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from jobs.presets import load_preset
from tests.warehouse.asking import ask
from tests.warehouse.importers.test_store import SAMPLES
from tests.webapp.conftest import OpenPage
from tests.webapp.measured import measure_study
from tests.webapp.pages.test_results import words
from warehouse.ingest.service import ingest_all
from warehouse.settings import Settings

FILE = SAMPLES / "vllm-bench" / "spec-code-c4.json"


def uploaded(app: AppTest, content: bytes, labels: str = "") -> AppTest:
    app.file_uploader(key="import-files").upload("result.json", content, "application/json")
    app.text_input(key="import-labels").set_value(labels)
    app.run()
    (button,) = [each for each in app.button if each.label == "Import"]
    button.click().run()
    assert not app.exception, app.exception
    return app


def said(app: AppTest) -> str:
    return "".join(each.value for each in (*app.success, *app.error)).replace("\\", "")


def test_an_uploaded_file_becomes_a_run_with_its_labels(open_page: OpenPage, settings: Settings) -> None:
    app = uploaded(open_page("external_results"), FILE.read_bytes(), "hardware=H200, study=theirs")
    assert "1 new run of 1: on the Results page in seconds, as imported-" in said(app)
    ingest_all(settings)
    assert ask(settings, "select hardware, study_name, origin from runs") == [("H200", "theirs", "imported")]


def test_the_same_file_again_is_said_to_be_known(open_page: OpenPage, settings: Settings) -> None:
    uploaded(open_page("external_results"), FILE.read_bytes())
    assert "none of them is new" in said(uploaded(open_page("external_results"), FILE.read_bytes()))


@pytest.mark.parametrize(
    ("content", "labels", "sentence"),
    [
        (b"{}", "", "result.json: no supported result"),
        (FILE.read_bytes()[:-40], "", "result.json: line 1: the file ends too early"),
        (FILE.read_bytes(), "H200", "labels are KEY=VALUE"),
    ],
)
def test_what_cannot_be_imported_is_said_and_nothing_is_kept(
    open_page: OpenPage, settings: Settings, content: bytes, labels: str, sentence: str
) -> None:
    assert sentence in said(uploaded(open_page("external_results"), content, labels))
    assert not settings.bundles.exists() or list(settings.bundles.iterdir()) == []


def test_published_figures_are_shown_with_their_doubts_and_a_way_to_repeat_them(open_page: OpenPage) -> None:
    app = open_page("external_results", source="friday-night-2025-12")
    assert "output_throughput is 158 and 37 tok/s in the same setting" in words(app)
    assert len(app.dataframe[-1].value) == 9


def test_a_source_that_measured_nothing_has_its_doubts_only(open_page: OpenPage) -> None:
    app = open_page("external_results", source="practice-2026")
    assert "about 4.5 tokens a round" in words(app)
    assert len(app.dataframe) == 0


def test_what_was_repeated_stands_beside_with_what_differs(open_page: OpenPage, settings: Settings) -> None:
    job_id = measure_study(settings, load_preset("friday-night", reference=True))
    app = open_page("external_results", source="friday-night-2025-12")
    assert job_id in words(app)
    assert "hardware: RTX PRO 6000 Blackwell Max-Q there, AMD EPYC 7B13 (2 cores) here" in words(app)
    beside = app.dataframe[0].value
    assert len(beside) == 8
    assert beside["here / there"].notna().all()
