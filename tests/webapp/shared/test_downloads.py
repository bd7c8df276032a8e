"""Pictures and tables that leave the page: each says what it is, and others can read it."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

from tests.webapp import frames
from webapp.charts import panels
from webapp.charts.panels import Figure
from webapp.charts.results import MEASURES
from webapp.charts.theme import INKS, Mode
from webapp.shared import downloads
from webapp.shared.downloads import About
from webapp.shared.url_params import View

LINK = View("results", {"job": ("job-1",), "category": ("code", "a&b")}).link
TOLD = About("Speed-up <b>", "against 1×", datetime(2026, 11, 21, 8, tzinfo=UTC), f"http://host/{LINK}")


def figure(mode: Mode = "light") -> Figure:
    frame = frames.speedup()
    return panels.speedup_figure(frame, MEASURES[0], panels.styles_of(frame, mode), mode)


def test_a_link_carries_several_values_of_a_parameter() -> None:
    assert LINK == "results?job=job-1&category=code&category=a%26b"
    assert View("jobs").link == "jobs"


def test_a_picture_has_title_source_date_link_and_the_arms_in_it() -> None:
    text = downloads.svg(figure(), TOLD, "light").decode()
    for wanted in ("Speed-up &lt;b&gt;", "against 1×", "data of 2026-11-21 08:00 UTC", "category=a%26b"):
        assert wanted.replace("&category", "&amp;category") in text
    assert ">draft k=3<" in text
    assert ">n-gram<" in text
    assert ">no draft<" not in text  # the baseline is the line at 1x, and no arm that is drawn


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_a_picture_has_the_ground_of_its_mode(mode: Mode) -> None:
    with Image.open(io.BytesIO(downloads.png(figure(mode), TOLD, mode))) as picture:
        corner = picture.convert("RGB").getpixel((2, 2))
        assert picture.width > 1000
    assert corner == tuple(bytes.fromhex(INKS[mode].ground.removeprefix("#")))


def test_pandas_and_duckdb_read_a_table_as_csv_with_its_description(tmp_path: Path) -> None:
    rows = figure().rows
    path = tmp_path / "rows.csv"
    path.write_bytes(downloads.csv(rows, TOLD))
    assert path.read_text().splitlines()[:4] == [
        "# Speed-up <b>",
        "# against 1×",
        "# Drafthouse, data of 2026-11-21 08:00 UTC",
        f"# {TOLD.link}",
    ]
    assert list(pd.read_csv(path, comment="#")["ratio"]) == pytest.approx(list(rows["ratio"]))
    with duckdb.connect() as connection:
        assert connection.execute(f"SELECT count(*) FROM '{path}'").fetchone() == (len(rows),)


def test_a_title_of_several_lines_stays_a_comment() -> None:
    odd = About("one\ntwo,three", "", None, "x")
    assert downloads.csv(pd.DataFrame({"a": [1]}), odd).startswith(b"# one two,three\n# Drafthouse, data of")
    assert odd.file_name("csv") == "one-two-three.csv"


def test_a_table_as_parquet_has_the_same_in_its_metadata() -> None:
    rows = figure().rows
    table = pq.read_table(io.BytesIO(downloads.parquet(rows, TOLD)))
    assert table.schema.metadata[b"drafthouse"].decode().splitlines()[0] == "Speed-up <b>"
    assert table.num_rows == len(rows)
    assert json.loads(table.schema.metadata[b"pandas"])["index_columns"] == []


def test_text_that_a_spreadsheet_would_run_is_text_in_csv() -> None:
    rows = pd.DataFrame(
        {"arm": ["=cmd|' /C calc'!A0", "@SUM(1)", "-1+1", "plain = good"], "ratio": [-1.5, 2.0, 1.0, 1.0]}
    )
    lines = downloads.csv(rows, TOLD).decode().splitlines()[-4:]
    assert lines == ["'=cmd|' /C calc'!A0,-1.5", "'@SUM(1),2.0", "'-1+1,1.0", "plain = good,1.0"]
