"""The External results page: files are imported, published figures stand beside measured ones."""

from __future__ import annotations

from pathlib import Path

from streamlit.testing.v1 import AppTest

from host.settings import Settings
from interchange.store import import_paths
from jobs.presets import load_preset
from tests.actors import OTHER_SUBMITTER
from tests.interchange.sample_files import SAMPLES
from tests.warehouse.asking import ask
from tests.warehouse.exports import forged_export
from tests.warehouse.runs import write_run
from tests.webapp.conftest import OpenPage
from tests.webapp.measured import measure_study
from tests.webapp.page_text import click, ran, words
from warehouse.ingest.service import ingest_all
from webapp.pages.external_results import data, page
from webapp.shared import published_data, study_picker, url_params
from webapp.shared.text import literal

FILE = SAMPLES / "vllm-bench" / "spec-code-c4.json"


def uploaded(app: AppTest, content: bytes, **labels: str) -> AppTest:
    app.file_uploader[0].upload("result.json", content, "application/json")
    for name, value in labels.items():
        app.text_input(key=f"import-label-{name}").set_value(value)
    return click(ran(app.run()), "Import")


def test_an_uploaded_file_becomes_a_labelled_run_once(open_page: OpenPage, settings: Settings) -> None:
    app = uploaded(open_page("external_results"), FILE.read_bytes()[:-40])
    assert "result.json: line 1: the file ends too early" in words(app)
    assert not settings.bundles.exists() or list(settings.bundles.iterdir()) == []
    app = uploaded(open_page("external_results"), FILE.read_bytes(), hardware=" H200 ", study="theirs")
    assert "Imported 1 run. Results appear within a few seconds." in words(app)
    assert "**theirs**" in [link.proto.label for link in app.get("page_link")]
    ingest_all(settings)
    assert ask(settings, "select hardware, study_name, origin from runs") == [("H200", "theirs", "imported")]
    again = page.import_uploaded([("result.json", FILE.read_bytes())], {"hardware": "H200", "study": "theirs"})
    (job_id,) = [folder.name for folder in settings.bundles.iterdir()]
    before = "Nothing was imported: 1 run in the files, all of them imported before."
    advice = f"To change their labels, remove {literal(job_id)} below and import the files again."
    assert again == (True, f"{before} {advice}", ())
    assert page.import_uploaded([("result.json", FILE.read_bytes())], {}) == (True, before, ())
    data.remove(job_id)
    assert page.import_uploaded([("result.json", FILE.read_bytes())], {"hardware": "B200"})[0]
    ingest_all(settings)
    assert ask(settings, "select hardware from runs") == [("B200",)]
    refused = page.import_uploaded([("result.json", b"{}")], {})
    assert not refused[0]
    assert "not a supported result" in refused[1]


def test_imported_runs_are_listed_removed_and_restored(open_page: OpenPage, settings: Settings) -> None:
    page.import_uploaded([("result.json", FILE.read_bytes())], {"hardware": "H200", "study": "theirs"})
    ingest_all(settings)
    app = open_page("external_results")
    (row,) = data.imported_jobs().itertuples()
    assert "1 run · vllm-bench-serve" in words(app)
    assert "H200" in words(app)
    app = click(app, "Remove")
    assert f"{row.job_id} was removed" in words(app)
    ingest_all(settings)
    assert ask(settings, "select count(*) from runs where origin = 'imported'") == [(0,)]
    assert "H200" not in words(app.run())
    click(app, "Undo")
    ingest_all(settings)
    assert ask(settings, "select hardware from runs where origin = 'imported'") == [("H200",)]


def test_runs_of_another_drafthouse_say_who_imported_them_and_are_no_default(
    open_page: OpenPage, settings: Settings, tmp_path: Path
) -> None:
    write_run(settings.bundles, job_id="ours")
    folder = forged_export(tmp_path / "forged", job_id="theirs")
    (imported,) = import_paths(settings, [folder], actor=OTHER_SUBMITTER).jobs
    ingest_all(settings)
    app = open_page("external_results")
    assert "imported by sue as job theirs of another Drafthouse" in words(app)
    shown = words(open_page("run", job=url_params.job_label("small", imported)))
    assert "Not measured here, but imported from a folder that another Drafthouse exported" in shown
    assert "sue" in shown
    assert "ours" in str(study_picker.default_study(published_data.studies_with_results()))
    click(app, "Remove")
    ingest_all(settings)
    assert ask(settings, "select distinct job_id from runs") == [("ours",)]


def test_published_figures_have_their_contradictions_and_their_presets(settings: Settings) -> None:
    ingest_all(settings)
    friday = data.published("friday-night-2025-12")
    assert any("output_throughput is 158 and 37 tok/s" in sentence for sentence in friday.contradictions)
    assert "friday-night" in friday.presets
    assert len(friday.figures) == 9
    assert list(friday.figures.columns[:3]) == ["metric", "printed", "unit"]
    practice = data.published("practice-2026")
    assert practice.figures.empty
    assert any("about 4.5 tokens a round" in sentence for sentence in practice.contradictions)


def test_a_source_is_shown_beside_its_replication_and_the_differences(open_page: OpenPage, settings: Settings) -> None:
    job_id = measure_study(settings, load_preset("friday-night", reference=True))
    app = open_page("external_results", source="friday-night-2025-12")
    shown = words(app)
    assert "output_throughput is 158 and 37 tok/s in the same setting" in shown
    assert job_id in shown
    assert "hardware: RTX PRO 6000 Blackwell Max-Q there, AMD EPYC 7B13 (2 cores) here" in shown
    beside, printed = (frame.value for frame in app.dataframe)
    assert (len(beside), len(printed)) == (8, 9)
    assert beside["ratio"].notna().all()
