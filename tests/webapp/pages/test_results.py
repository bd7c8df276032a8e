from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace

import duckdb
import pandas as pd
import pytest
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df

from host.settings import Settings
from interchange.store import Import, import_paths
from jobs import queue
from lab.study.plan import plan
from tests.actors import ADMIN
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.webapp import frames
from tests.webapp.comparisons import comparison
from tests.webapp.conftest import LITTLE_KNOWN, OpenPage, ReadStudy
from tests.webapp.homes import running_job
from tests.webapp.measured import measure_study, write_run
from tests.webapp.page_text import charts, ran, words
from tests.webapp.three_arms import three_arms
from warehouse.app_db.engine import open_engine
from warehouse.bundles.run_bundle import RUN_FILE, find_bundles
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.ratio_tables import arm_means
from webapp.pages.results import tables
from webapp.shared.cards import Card
from webapp.shared.verdicts import arm_cards

NGRAM = {"method": "ngram", "num_speculative_tokens": 3}


@pytest.fixture
def open_measured(open_page: OpenPage, read_study: ReadStudy) -> OpenPage:
    """Opens pages of a home in which three arms were measured."""
    read_study(three_arms())
    return open_page


@pytest.fixture
def measured(settings: Settings) -> Settings:
    """This test's home, in which three arms were measured."""
    measure_study(settings, three_arms())
    return settings


def test_with_nothing_measured_the_page_says_what_will_be_here(open_page: OpenPage) -> None:
    app = open_page("results")
    assert "No results yet: nothing has been measured here" in words(app)
    assert "Submit the first study" in [button.label for button in app.button]


def test_with_the_first_study_on_its_way_the_page_says_so(open_page: OpenPage, settings: Settings) -> None:
    queue.submit(settings, study(name="first"), actor=ADMIN)
    assert "first is queued" in words(open_page("results"))


def test_the_newest_study_is_shown_with_its_headline(open_page: OpenPage, settings: Settings) -> None:
    measure_study(settings, three_arms(name="older"))
    newest = measure_study(settings, three_arms(name="newer", repeats=2))
    app = open_page("results")
    assert app.selectbox(key="job").value == f"newer · {newest}"
    shown = words(app)
    assert "2 repeats per cell; ratios are geometric means of the repeats' ratios, with 95 % intervals." in shown
    assert "AMD EPYC 7B13 (2 cores)" in shown
    assert "The target is the reference model: not a useful model" in shown
    assert charts(app) == 6  # three figures of two categories


def test_arms_stand_in_the_studys_order(open_measured: OpenPage) -> None:
    shown = [element.value.replace("\u00a0", " ") for element in open_measured("results").markdown]
    legends = [text for text in shown if "foreground" in text]
    assert [legend.index("draft") < legend.index("a first by name") for legend in legends] == [True] * 3


def test_a_category_narrows_cards_charts_and_tables(open_measured: OpenPage) -> None:
    app = open_measured("results", category="code")
    assert app.selectbox(key="category").value == "code"
    assert charts(app) == 3
    assert set(app.dataframe[0].value["category"]) == {"code"}


def test_a_latency_is_compared_with_its_own_words(open_measured: OpenPage) -> None:
    app = open_measured("results", metric="Time per output token p50")
    shown = words(app)
    assert "Time per output token p50 against the baseline" in shown
    assert "Surest ratio of 8 cells" in shown


def test_a_claim_in_the_link_is_set_against_what_was_measured(open_measured: OpenPage) -> None:
    """One repeat has no interval, so it decides nothing about a claim."""
    shown = words(open_measured("results", claim="3"))
    assert re.search(
        r"3× was claimed; measured 1\.\d\d× \(draft, .+\): the claim is inconclusive. Of 8 cells: 8", shown
    )
    assert "was claimed" not in words(open_measured("results"))


def test_a_link_names_each_of_its_values_that_is_gone(open_measured: OpenPage) -> None:
    app = open_measured("results", category="poetry", metric="Charm")
    warnings = [warning.value.replace("\\", "") for warning in app.warning]
    assert len(warnings) == 2
    assert "The category poetry in this link does not exist" in warnings[0]
    assert "The metric Charm in this link does not exist" in warnings[1]
    app.selectbox(key="category").select("code").run()
    assert len(app.warning) == 1


def test_failed_runs_are_listed_with_their_error_and_not_drawn(open_page: OpenPage, settings: Settings) -> None:
    measure_study(settings, three_arms(), failing="draft")
    app = open_page("results", results_tab="Failed runs")
    failed = app.dataframe[0].value
    assert len(failed) == 4
    assert set(failed["error"]) == {"EngineError: vllm serve ended with exit code 1: <b>no such head</b> $x$"}
    assert "8 of 12" in words(app)
    assert "4 failed, " in words(app)
    app = open_page("results", results_tab="Failed runs", category="code")
    assert set(app.dataframe[0].value["category"]) == {"code"}


def test_invalid_runs_are_in_no_chart_and_the_page_says_why(open_page: OpenPage, settings: Settings) -> None:
    measure_study(settings, three_arms(), miscounted="draft")
    app = open_page("results")
    lost = (
        "4 of 12 runs invalid. Charts and comparisons leave them out. No valid run: draft. The tabs Checks and Failed"
    )
    assert lost in words(app)
    assert set(app.dataframe[0].value["arm"]) == {"no draft", "a first by name"}
    checks = open_page("results", results_tab="Checks").dataframe[0].value
    invalid = checks[checks["severity"] == "invalid"]
    assert set(invalid["arm"]) == {"draft"}
    assert invalid["sentence"].str.contains("counted").all()
    of_code = open_page("results", results_tab="Checks", category="code").dataframe[0].value
    assert set(of_code["category"].dropna()) == {"code"}
    assert len(of_code) < len(checks)


def test_a_link_to_a_missing_table_says_so_and_shows_the_first(open_measured: OpenPage) -> None:
    app = open_measured("results", results_tab="<b>gone</b>")
    assert "The table <b>gone</b> in this link does not exist (any more). Shown instead: Cells." in words(app)
    assert "ratio" in app.dataframe[0].value


def test_each_arm_has_a_verdict_with_its_interval(open_page: OpenPage, settings: Settings) -> None:
    measure_study(settings, three_arms(repeats=3))
    verdicts = open_page("results", results_tab="Verdicts").dataframe[0].value.to_dict("records")
    place = {"arm": "draft", "workload": "reference/repeat/8", "pattern": "c1-n4"}
    (best,) = [row for row in verdicts if row.items() >= place.items()]
    assert best["verdict"] == "▲ faster"
    assert best["same"] == 100
    assert best["low"] <= best["ratio"] <= best["high"]
    assert len(verdicts) == 8


def test_while_a_study_runs_what_is_measured_so_far_is_shown(open_page: OpenPage, settings: Settings) -> None:
    running = three_arms(name="running")
    job_id = running_job(settings, running)
    first = plan(running)[0]
    write_run(settings, running, first.runs[0], job_id, first.index)
    ingest_all(settings)
    app = open_page("results")
    assert "This study is running" in words(app)
    assert "Nothing to compare yet" in words(app)
    assert "1 of 12" in words(app)


def test_the_tables_carry_units_and_no_long_numbers(open_measured: OpenPage) -> None:
    app = open_measured("results")
    config = app.dataframe[0].proto.columns
    assert "Output throughput (tok/s)" in config
    shown = convert_arrow_bytes_to_pandas_df(app.dataframe[0].proto.arrow_data.styler.display_values)
    assert all(re.fullmatch(r"\d{2}\.\d|\d{3}", text) for text in shown["value"])


def test_a_job_table_that_is_away_leaves_the_results_readable(measured: Settings, open_page: OpenPage) -> None:
    with open_engine(measured.app_database_url) as engine, engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'from-the-future'")
    assert charts(open_page("results")) == 6


def test_a_warehouse_of_another_revision_is_a_sentence_on_the_page(measured: Settings, open_page: OpenPage) -> None:
    with duckdb.connect(str(measured.warehouse_file)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'from-the-future'")
    (warning,) = open_page("results").warning
    assert "written by a newer Drafthouse (revision from-the-future)" in warning.value.replace("\\", "")


def test_a_file_that_is_no_warehouse_is_an_error_message(measured: Settings, open_page: OpenPage) -> None:
    measured.warehouse_file.write_bytes(b"this is no database")
    (error,) = open_page("results").error
    assert "The warehouse does not answer" in error.value
    assert "not a valid DuckDB database file" in error.value.replace("\\", "")


def test_hostile_names_are_shown_letter_by_letter(open_page: OpenPage, settings: Settings) -> None:
    name = "<script>alert(1)</script> $x$ :smile: [a](b)"
    measure_study(settings, study(name=name, arms=[{"name": "no *draft*"}, {"name": name, "speculation": NGRAM}]))
    legends = [element.value for element in open_page("results").markdown if "foreground" in element.value]
    assert all(r"\<script\>alert\(1\)\<\/script\> \$x\$ \:smile\: \[a\]\(b\)" in legend for legend in legends)


def test_imported_runs_are_shown_and_compared_like_any_other_and_said_to_be_imported(
    open_page: OpenPage, settings: Settings
) -> None:
    labels = {"study": "theirs", "hardware": "H200"}
    for arm, more in (("base", {"baseline": "true"}), ("spec", {})):
        path = SAMPLES / "vllm-bench" / f"{arm}-random-c4.json"
        import_paths(settings, [path], labels={**labels, "arm": arm, **more}, actor=ADMIN)
    ingest_all(settings)
    app = open_page("results")
    assert "Imported from files of vllm-bench-serve" in words(app)
    assert charts(app) == 3
    app = open_page("compare")
    assert "Output throughput over base, geometric mean" in words(app)
    assert charts(app) > 0


def test_imported_runs_of_which_little_is_known_are_shown_all_the_same(
    open_page: OpenPage, imports: dict[str, Import]
) -> None:
    for job_id in (job_id for tool in LITTLE_KNOWN for job_id in imports[tool].jobs):
        assert "Imported from files of" in words(open_page("results", job=job_id))


def test_the_card_of_the_surest_cell_is_called_that() -> None:
    compared = comparison({"draft": (1.48, 1.05, 0.9), "n-gram": (1.2, 1.04, 0.95)})
    card = tables.best_card(compared, "speed-up")
    assert (card.label, card.value) == ("Surest speed-up of 6 cells", "1.48×")
    where = r"▲ faster \[1\.4\d, 1\.5\d\]: draft, code, concurrency 1"
    assert re.fullmatch(where, card.detail)
    lucky = comparison({"draft": (1.3,), "lucky": (1.5,)}, noise=0.0)
    assert tables.best_pair(lucky) is lucky.pairs[1]
    wide = comparison({"draft": (1.4,)}, noise=0.01).pairs + comparison({"wide": (1.6,)}, noise=0.3).pairs
    assert tables.best_pair(replace(compared, pairs=wide)) is wide[0]
    unknown = tables.best_card(comparison({"draft": (2.5,)}, repeats=2, noise=1.0), "speed-up")
    assert (unknown.value, unknown.detail) == ("unknown", "No cell has an interval that is narrow enough to say.")


def test_one_repeat_has_no_best_cell_and_no_break_even() -> None:
    compared = comparison({"draft": (1.48, 1.05, 0.9)}, repeats=1)
    for card in (tables.best_card(compared, "speed-up"), tables.break_even_card(compared)):
        assert (card.value, card.detail) == (
            "–",
            "No cell has an interval yet: one repeat does not show how much runs vary.",
        )
    assert "too few to judge" in tables.repeats_sentence(frames.speedup(repeats=1))
    assert "95 % intervals" in tables.repeats_sentence(frames.speedup(repeats=3))
    with_intervals = frames.speedup(repeats=3).assign(repeats=1)  # by what other cells scatter
    assert "no intervals" not in tables.repeats_sentence(with_intervals)


def test_a_control_is_never_the_best_cell() -> None:
    compared = comparison({"draft": (1.2,), "plain again": (1.4,)}, controls=["plain again"])
    best = tables.best_pair(compared)
    assert best is not None
    assert best.candidate.arm == "draft"
    assert tables.best_card(compared, "speed-up").label == "Surest speed-up of 1 cell"


@pytest.mark.parametrize(
    ("ratios", "value", "detail"),
    [
        ((1.5, 1.25, 0.8), r"pays up to concurrency 8\.0 \[\d\.\d, \d\.\d\]", "draft, code"),
        ((1.5, 1.3, 1.2), "pays everywhere measured", "draft, code"),
        (
            (1.5, 1.3, 1.001),
            "inconclusive",
            "draft, code: better than the baseline everywhere measured \\(1 to 16\\), but not yet significantly",
        ),
        ((1.001, 0.999), "inconclusive", r"draft, code: crosses 1× near concurrency 2\.0"),
        ((0.9, 0.8, 0.7), "pays nowhere measured", "draft, code"),
    ],
)
def test_the_break_even_says_pays_only_where_the_intervals_decide_it(
    ratios: tuple[float, ...], value: str, detail: str
) -> None:
    card = tables.break_even_card(comparison({"draft": ratios}))
    assert re.fullmatch(value, card.value), card
    assert re.fullmatch(detail, card.detail), card


def test_an_arms_card_has_its_geometric_mean_with_the_verdict() -> None:
    compared = comparison({"draft": (1.5, 1.2, 1.1), "again": (1.0, 1.01, 0.99)}, controls=["again"])
    means = arm_means(compared)
    card = arm_cards.card(compared, "draft", means["draft"])
    assert card.value == f"{(1.5 * 1.2 * 1.1) ** (1 / 3):.2f}×"
    assert re.fullmatch(r"▲ faster over all cells \[1\.2\d, 1\.2\d\]; all 3 cells faster", card.detail)
    control = arm_cards.card(compared, "again", means["again"])
    assert control.detail.startswith("≡ control, identical to the baseline: differs by ")
    assert arm_cards.controls_last(compared, ["again", "draft"]) == ["draft", "again"]
    alone = comparison({"draft": (1.5,)})
    assert arm_cards.card(alone, "draft", arm_means(alone)["draft"]).detail.endswith("] in its only cell")


def test_a_category_narrows_the_cells_and_leaves_their_verdicts_as_they_are() -> None:
    compared = comparison({"draft": (1.5, 1.01)}, workloads=("code", "prose"))
    narrowed = arm_cards.of_category(compared, "prose")
    assert narrowed.pairs == tuple(pair for pair in compared.pairs if pair.cell.workload == "prose")
    assert arm_cards.of_category(compared, None) == compared


def test_failed_runs_are_counted_apart_from_measured_ones() -> None:
    results = pd.DataFrame(
        {
            "status": ["completed", "completed", "failed", "completed"],
            "requests_completed": [8, 16, None, 8],
            "is_valid": [True, False, None, True],
            "is_counted": [True, True, True, False],
        }
    )
    assert tables.runs_card(results, 4) == Card("Runs measured", "2 of 4", "1 failed, 1 invalid, 24 requests answered")
    assert tables.runs_card(results, None).value == "2"
    unknown = results.assign(requests_completed=pd.Series([8, None, None, 8]))
    assert tables.runs_card(unknown, 4).detail == "1 failed, 1 invalid, an unknown number of requests answered"


def test_after_run_all_again_a_study_of_twelve_runs_reads_twelve(measured: Settings, open_page: OpenPage) -> None:
    for bundle in list(find_bundles(measured.bundles)):
        record = json.loads((bundle / RUN_FILE).read_text())
        again = bundle.with_name(f"{bundle.name}-again")
        shutil.copytree(bundle, again)
        record |= {"run_id": again.name, "attempt": 1}
        (again / RUN_FILE).write_text(json.dumps(record))
    ingest_all(measured)
    app = open_page("results")
    assert "12" in [header.value for header in app.header]
    assert "24 of 12" not in words(app)


def test_several_machines_are_all_named() -> None:
    results = pd.DataFrame(
        {
            "hardware": ["H200", "L4", "L4"],
            "engine": ["vllm"] * 3,
            "engine_version": ["0.32.0", "0.32.0", None],
            "target": ["reference"] * 3,
            "status": "completed",
        }
    )
    card = tables.hardware_card(results)
    assert card.value == "H200, L4"
    assert card.detail == "vllm, vllm 0.32.0; target reference"
    never_started = results.assign(status=["completed", "completed", "failed"])
    assert tables.hardware_card(never_started).detail == "vllm 0.32.0; target reference"


def test_a_caption_typed_for_one_figure_is_not_that_of_another(open_measured: OpenPage) -> None:
    app = open_measured("results")
    app = ran(app.button(key="pin-speedup").click().run())
    (caption,) = [area for area in app.text_area if area.label == "Caption"]
    caption.set_value("of the speed-up")
    app = ran(app.button(key="pin-throughput").click().run())
    assert [area.value for area in app.text_area if area.label == "Caption"] == [""]
