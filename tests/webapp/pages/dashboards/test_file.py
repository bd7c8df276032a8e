"""A dashboard as a file: everything in it, all text as text, and nothing asked of anybody."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import altair as alt
import pandas as pd

from webapp.charts.panels import Figure
from webapp.charts.theme import ArmStyle
from webapp.pages.dashboards.html_export import MOST_ROWS, Sheet, html
from webapp.shared.downloads import About

HOSTILE = "</script><script>document.title='owned'</script><b>&amp;\u2028"
MOMENT = datetime(2026, 11, 21, 4, 0, tzinfo=UTC)
ABOUT = About(HOSTILE, "", MOMENT, "http://127.0.0.1:8501/dashboards?dashboard=x")
ROWS = pd.DataFrame({"arm": [HOSTILE, "b"], "value": [1.5, float("nan")]})


def figure(rows: pd.DataFrame, *panels: str) -> Figure:
    charts = tuple((title, alt.Chart(rows).mark_bar().encode(x="arm:N", y="value:Q")) for title in panels)
    return Figure("one", HOSTILE, "a note", (ArmStyle(HOSTILE, "#0072b2", "square", "■"),), charts, rows)


def sheet(shown: Figure | None, problem: str = "", link: str = "http://127.0.0.1:8501/results?job=j&metric=x") -> Sheet:
    return Sheet(About(HOSTILE, "a note", MOMENT, link), HOSTILE, problem, shown, shown, is_wide=False)


def made(*sheets: Sheet) -> str:
    """Without the drawing code, which is a megabyte of others' text."""
    text = html(ABOUT, list(sheets)).decode()
    return re.sub(r"<script>(?!\nconst).*?</script>", "", text, flags=re.DOTALL)


def part(text: str, name: str) -> Any:
    match = re.search(rf'id="{name}">(.*?)</script>', text, re.DOTALL)
    assert match is not None
    return json.loads(match[1])


def test_names_captions_and_values_are_text_and_end_no_script() -> None:
    text = made(sheet(figure(ROWS, "left", "right")), sheet(figure(ROWS)), sheet(None, HOSTILE))
    assert "<script>document.title" not in text
    assert "<b>&amp;" not in text.replace('<b style="', "")
    assert "&lt;/script&gt;&lt;script&gt;document.title=&#x27;owned&#x27;" in text
    assert text.count("</script>") == 3
    (values,) = part(text, "rows").values()
    assert values[0]["arm"] == HOSTILE


def test_each_card_has_title_source_and_date() -> None:
    text = made(sheet(figure(ROWS, "left")))
    assert "Drafthouse, data of 2026-11-21 04:00 UTC" in text
    assert 'href="http://127.0.0.1:8501/results?job=j&amp;metric=x"' in text
    assert "(a note)" in text


def test_rows_stand_in_the_file_once_for_both_modes_and_all_panels() -> None:
    plans = part(text := made(sheet(figure(ROWS, "left", "right"))), "plans")
    assert [sorted(plan) for plan in plans] == [["dark", "light"], ["dark", "light"]]
    assert len(part(text, "rows")) == 1
    assert plans[0]["light"]["config"] != plans[0]["dark"]["config"]
    assert plans[0]["light"]["width"] == "container"


def test_panels_that_need_more_width_take_a_row_each_rather_than_overprint() -> None:
    assert 'class="panels" style="--least: 500px"' in made(
        sheet(replace(figure(ROWS, "left", "right"), least_width=500))
    )
    assert 'class="panels">' in made(sheet(figure(ROWS, "left", "right")))


def test_its_own_rules_forbid_it_to_ask_another_host() -> None:
    text = made(sheet(figure(ROWS, "left")))
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=\"(?!http://127\.0\.0\.1)", text)


def test_a_link_that_is_none_is_not_one_to_follow() -> None:
    assert 'href="javascript' not in (text := made(sheet(figure(ROWS), link="javascript:alert(1)")))
    assert "javascript:alert(1)" in text


def test_unknown_values_are_empty_cells_and_a_cut_table_says_so() -> None:
    text = made(sheet(figure(pd.DataFrame({"a": [None, *range(MOST_ROWS + 1)], "b": [["x"]] * (MOST_ROWS + 2)}))))
    assert '<td class="number"></td>' in text
    assert "The first 1,000 of 1,002 rows." in text
    assert '<td class="text">[&#x27;x&#x27;]</td>' in text
