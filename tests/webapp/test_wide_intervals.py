"""An interval that says next to nothing is unknown wherever it is shown; programs get its ends as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df
from streamlit.testing.v1 import AppTest

from host.settings import Settings
from lab.metrics.number_format import bounds
from lab.study.plan import plan
from tests.cli.homes import new_home
from tests.lab.studies import study
from tests.webapp.conftest import OpenPage, using_home
from tests.webapp.homes import claimed_job, finish, make_home
from tests.webapp.measured import measure_study, write_run
from tests.webapp.page_text import words
from tests.webapp.three_arms import ARMS
from warehouse.ingest.service import ingest_all
from webapp.pages import PAGES
from webapp.pages.compare.tables import MEAN

#: How much slower the second of two repeats is, by arm: a ratio of two blocks that are three times apart.
SLOWER = {"no draft": 1.0, "draft": 3.0}
INTERVAL = re.compile(r"\[(-?[\d,.]+), (-?[\d,.]+)\]")
#: Beyond any figure of the study: a million output tokens take an hour or two.
ABSURD = re.compile(r"\d{2},\d{3},\d{3}|-\d,\d{3}\.")
#: Ends of intervals about a number, in the rows of charts.
ENDS = (("ratio", "low", "high"), ("y", "low", "high"), ("speedup", "low", "high"))


@dataclass(frozen=True)
class Lab:
    settings: Settings
    job_id: str


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """A study of two repeats that scatter so that intervals go from a thousandth to a thousand, only to be read."""
    settings = make_home(tmp_path_factory.mktemp("uncertain"))
    uncertain = study(name="uncertain", repeats=2, price_usd_per_hour=7.2)
    job_id = claimed_job(settings, uncertain)
    for launch in plan(uncertain):
        for run in launch.runs:
            slower = SLOWER[run.arm.name] if run.repeat else 1.0
            write_run(settings, uncertain, run, job_id, launch.index, slower=slower)
    finish(settings, job_id, "done")
    ingest_all(settings)
    return Lab(settings, job_id)


@pytest.fixture
def lab(settings: Settings, measured: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The pages are led there from this test's own home."""
    assert settings
    with using_home(measured.settings, monkeypatch):
        yield measured


def intervals(text: str) -> list[tuple[float, float]]:
    return [(float(low.replace(",", "")), float(high.replace(",", ""))) for low, high in INTERVAL.findall(text)]


def is_modest(text: str) -> bool:
    """No interval in the text ends a hundred times where it began."""
    return not ABSURD.search(text) and all(low > 0 and high <= 100.5 * low for low, high in intervals(text))


def shown(app: AppTest) -> str:
    """The words, the cards and the tables of a page as they are written."""
    written = [table.proto.arrow_data.styler.display_values for table in app.dataframe]
    tables = [convert_arrow_bytes_to_pandas_df(table).to_csv() for table in written if table]
    return "\n".join([words(app), *tables])


def parts_of(spec: Any) -> Iterator[Any]:
    """Everything within a chart's specification: rows, and the texts in them."""
    yield spec
    for part in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, (list, tuple)) else ():
        yield from parts_of(part)


def test_pages_cards_and_tables_show_no_interval_that_says_nothing(lab: Lab, open_page: OpenPage) -> None:
    for page in ("home", "results", "compare", "deploy", "cost"):
        text = shown(open_page(page, job=lab.job_id))
        assert is_modest(text), (page, intervals(text))
        assert "[unknown]" in text or page == "home", page  # whose only interval is that over all cells


def test_charts_draw_no_interval_that_says_nothing(lab: Lab) -> None:
    every = [PAGES[page].figures({"job": (lab.job_id,)}, "light") for page in ("results", "compare", "cost")]
    every.append(PAGES["explore"].figures({"job": (lab.job_id,), "metric": ("Speed-up",), "mark": ("Line",)}, "light"))
    drawn = [figure for figures in every for figure in figures if figure.key != "throughput"]  # which draws none
    assert {"speedup", "break-even", "heat", "saving", "explore"} <= {figure.key for figure in drawn}
    texts = ""
    for figure in drawn:
        parts = list(parts_of([chart.to_dict() for _, chart in figure.panels]))
        texts += " ".join(part for part in parts if isinstance(part, str))
        for row in parts:
            for value, low, high in ENDS if figure.key != "heat" else ():  # it has the interval as text
                if isinstance(row, dict) and isinstance(row.get(value), float) and row.get(high) is not None:
                    assert 0.1 * row[value] <= row[low] <= row[high] <= 10 * row[value], (figure.key, row)
            if isinstance(row, dict) and isinstance(row.get("saving_low"), float):
                assert row["saving_low"] > -9, (figure.key, row)
    assert is_modest(texts), intervals(texts)
    assert "[unknown]" in texts


def test_the_command_prints_unknown_and_gives_programs_the_ends(lab: Lab) -> None:
    home = new_home(lab.settings.home)
    for words_of in (("compare",), ("compare", "--table"), ("advise",), ("cost",)):
        answer = home.ask(words_of[0], lab.job_id, *words_of[1:])
        assert answer.returncode == 0, answer.stderr
        assert is_modest(answer.stdout), answer.stdout
        assert "[unknown]" in answer.stdout, words_of
    pair = json.loads(home.ask("compare", lab.job_id, "--json").stdout)["pairs"][0]
    assert pair["ratio"]["high"] > 1000 * pair["ratio"]["low"]
    assert (pair["verdict"]["word"], "[unknown]" in str(pair)) == ("inconclusive", False)


def test_the_mean_of_one_workload_has_the_same_interval_everywhere(settings: Settings, open_page: OpenPage) -> None:
    job_id = measure_study(settings, study(name="two drafts", arms=ARMS, repeats=3))
    (cards, heat) = words(open_page("results", job=job_id)), PAGES["compare"].figures({"job": (job_id,)}, "light")
    rows = next(figure.rows for figure in heat if figure.key == "heat")
    for row in rows[(rows["column"] == MEAN)].to_dict("records"):
        assert f"over all cells {bounds(row['ratio'], row['low'], row['high'])}" in cards
    table = new_home(settings.home).ask("compare", job_id, "--table").stdout
    sweeps = re.findall(r"whole sweep: \S+ (\[.*?\])", table)
    assert [table.count(sweep) for sweep in sweeps] == [2, 2]
