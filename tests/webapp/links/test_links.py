"""A shared link shows one thing to whoever has it, and opens nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest
from starlette.websockets import WebSocketDisconnect

from access import accounts, sessions, shared_links
from access.shared_links import Kind
from access.web.gate import gate
from lab.roles import Role
from tests.actors import ADMIN, VIEWER
from tests.webapp.links.conftest import Lab
from tests.webapp.measured import START
from warehouse.app_db import dashboards, pins, saved_views
from warehouse.app_db.pins import PinnedFigure
from webapp.links import rendered
from webapp.shared import published_data

PNG = b"\x89PNG\r\n"


@pytest.fixture
def board(lab: Lab) -> Iterator[str]:
    """A dashboard with a figure of one study, and a question about the audit table."""
    made = dashboards.create(lab.database, "Shared", actor=VIEWER)
    pins.add(lab.database, made, PinnedFigure("results", {"job": (lab.home.three_arms,)}, "speedup"), "", actor=VIEWER)
    asks = saved_views.save(lab.database, "sql", {"sql": "select * from audit", "drawn": None}, actor=ADMIN)
    pins.add(lab.database, made, PinnedFigure("sql", {"query": (asks,)}, "table"), "", actor=VIEWER)
    yield made
    dashboards.remove(lab.database, made, actor=VIEWER)


def text_of(html: str) -> str:
    """What a reader sees of it, without its scripts."""
    return unescape(re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL))


def previews(html: str) -> dict[str, str]:
    return {name: unescape(value) for name, value in re.findall(r'<meta property="(og:\S+)" content="([^"]*)">', html)}


def test_a_linked_study_is_shown_with_its_answer_and_figures(lab: Lab) -> None:
    answer = lab.browser.get(lab.link(Kind.STUDY, lab.home.three_arms))
    assert answer.status_code == 200
    seen = text_of(answer.text)
    assert "three arms" in seen
    assert "Speed-up by load" in seen
    assert "by workload and load" in seen
    assert "set-cookie" not in answer.headers
    assert "<a " not in answer.text


def test_a_preview_has_title_answer_and_picture_without_any_script(lab: Lab) -> None:
    path = lab.link(Kind.STUDY, lab.home.three_arms)
    html = lab.browser.get(path).text
    tags = previews(html)
    assert tags["og:title"] == "three arms"
    assert tags["og:description"] in text_of(html)
    assert tags["og:url"] == f"http://127.0.0.1:8501{path}"
    assert tags["og:image"] == f"http://127.0.0.1:8501{path}/picture.png"
    assert html.index("og:image") < html.index("<script")
    picture = lab.browser.get(f"{path}/picture.png")
    assert (picture.headers["content-type"], picture.content[:6]) == ("image/png", PNG)


def test_a_linked_run_is_shown_with_numbers_and_without_texts(lab: Lab) -> None:
    runs = published_data.results(lab.home.one_repeat)
    run_id = str(runs["run_id"].iloc[0])
    html = lab.browser.get(lab.link(Kind.RUN, run_id)).text
    assert "Output throughput" in text_of(html)
    assert "valid" in text_of(html)
    for prompt in published_data.whole_requests(run_id)["prompt"].head(3):
        assert prompt not in html


def test_a_dashboard_shows_its_cards_and_asks_as_nobody(lab: Lab, board: str) -> None:
    """Its maker may be an administrator: who looks is not."""
    seen = text_of(lab.browser.get(lab.link(Kind.DASHBOARD, board, ADMIN)).text)
    assert "Speed-up by load" in seen
    assert "This figure cannot be drawn" in seen
    assert "session.begin" not in seen


def test_a_change_of_the_dashboard_is_seen(lab: Lab, board: str) -> None:
    path = lab.link(Kind.DASHBOARD, board)
    assert "Renamed" not in lab.browser.get(path).text
    dashboards.rename(lab.database, board, "Renamed", actor=VIEWER)
    assert "Renamed" in lab.browser.get(path).text


def test_the_address_alone_says_what_is_shown(lab: Lab, board: str) -> None:
    path = lab.link(Kind.DASHBOARD, board)
    plain = lab.browser.get(path).content
    other = lab.home.one_repeat
    for query in (f"job={other}", f"for_study={other}", f"dashboard={other}", "sql=select+1", "full=1", "embed=1"):
        assert lab.browser.get(f"{path}?{query}").content == plain


def test_nothing_else_answers_to_the_link(lab: Lab, board: str) -> None:
    path = lab.link(Kind.DASHBOARD, board)
    lab.browser.get(path)
    for elsewhere in ("/home", "/sql", f"/results?job={lab.home.one_repeat}", "/", f"/print/dashboard/{board}"):
        assert lab.browser.get(elsewhere).status_code == 303
    for part in ("/_stcore/health", "/media/x.png", "/api/v1/me", "/static/x.js"):
        assert lab.browser.get(part).status_code == 401
    for below in (
        f"{path}/x",
        f"{path}/_stcore/health",
        f"{path}/picture.png/x",
        "/shared/",
        "/shared/x/y",
        f"{path}/",
    ):
        assert lab.browser.get(below).status_code == 404
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert lab.browser.request(method, path).status_code == 401
    with (
        pytest.raises(WebSocketDisconnect),
        lab.browser.websocket_connect(path, headers={"Origin": "http://127.0.0.1:8501"}),
    ):
        pass
    bearer = {"Authorization": f"Bearer {path.removeprefix('/shared/')}"}
    assert lab.browser.get("/api/v1/me", headers=bearer).status_code == 401


def test_an_unknown_or_ended_link_says_so(lab: Lab, board: str) -> None:
    path = lab.link(Kind.DASHBOARD, board)
    assert lab.browser.get(path).status_code == 200
    (link, *_) = shared_links.all_links(lab.database, "vera")
    shared_links.revoke(lab.database, link.link_id, actor=VIEWER)
    removed = lab.link(Kind.DASHBOARD, board)
    dashboards.remove(lab.database, board, actor=VIEWER)
    gone = (
        path,
        removed,
        "/shared/made-up",
        "/shared/%C3%A9",
        lab.link(Kind.STUDY, "unknown"),
        lab.link(Kind.RUN, "unknown"),
    )
    for address in gone:
        answer = lab.browser.get(address)
        assert (answer.status_code, "This link shows nothing" in answer.text) == (404, True)
        assert lab.browser.get(f"{address}/picture.png").status_code == 404


def test_where_sharing_is_off_no_link_works(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lab.link(Kind.STUDY, lab.home.three_arms)
    monkeypatch.setenv("DRAFTHOUSE_WEB_SHARE_DAYS", "0")
    published_data.settings.cache_clear()
    monkeypatch.setattr(gate(), "settings", published_data.settings())
    assert lab.browser.get(path).status_code == 404


def test_only_chosen_sites_frame_it_and_only_by_the_link(lab: Lab) -> None:
    path = lab.link(Kind.STUDY, lab.home.three_arms)
    plain, embedded = lab.browser.get(path), lab.browser.get(f"{path}?embed=true")
    assert "frame-ancestors 'none'" in plain.headers["content-security-policy"]
    assert "frame-ancestors 'self' https://wiki.example.org;" in embedded.headers["content-security-policy"]
    assert '<body class="embed">' in embedded.text


def test_its_page_has_no_rights_and_loads_nothing(lab: Lab) -> None:
    answer = lab.browser.get(lab.link(Kind.STUDY, lab.home.three_arms))
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert policy.endswith("sandbox allow-scripts allow-downloads allow-modals")
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.partition("style-src")[0]
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["x-robots-tag"] == "noindex, nofollow"
    marked = re.sub(r"<script>.*?</script>", "", answer.text, flags=re.DOTALL)
    assert not re.search(r"<(?:script|img|iframe|link)[^>]* (?:src|href)=", marked)


def test_the_same_page_for_printing_is_behind_the_login(lab: Lab) -> None:
    path = f"/print/study/{lab.home.three_arms}"
    assert lab.browser.get(path).headers["location"].startswith("/login?next=")
    accounts.add_user(lab.database, "prue", Role.VIEWER, actor=ADMIN)
    cookie = {"drafthouse-8501": sessions.begin(lab.database, "prue", "here")}
    lab.browser.cookies = cookie
    assert 'id="print"' in lab.browser.get(path).text
    for wrong in ("/print/study/unknown", "/print/secret/x", "/print/dashboard/unknown"):
        assert lab.browser.get(wrong).status_code == 404


def test_a_frozen_link_shows_the_data_of_its_moment_whatever_came_later(lab: Lab, board: str) -> None:
    first = START + timedelta(minutes=2)  # two of its launches had ended
    for kind, subject in ((Kind.STUDY, lab.home.three_arms), (Kind.DASHBOARD, board)):
        live, frozen = (lab.browser.get(lab.link(kind, subject, as_of=seen)).text for seen in (None, first))
        assert "data of 2026-11-21 04:14 UTC" in frozen
        assert "data of 2026-11-21 04:14 UTC" not in live
    before = lab.link(Kind.STUDY, lab.home.three_arms, as_of=START - timedelta(days=1))
    assert lab.browser.get(before).status_code == 404


def test_what_is_shared_says_what_it_is_of(lab: Lab, board: str) -> None:
    for kind, subject in ((Kind.STUDY, lab.home.three_arms), (Kind.DASHBOARD, board)):
        text = lab.browser.get(lab.link(kind, subject)).text
        assert "reference · AMD EPYC 7B13 (2 cores) · vllm 0.32.0+cpu · " in text
        assert ", 2026-11-21 · reference model: not a useful model" in text


def test_it_is_drawn_once_however_often_it_is_opened(lab: Lab) -> None:
    path = lab.link(Kind.STUDY, lab.home.baseline_only)
    rendered._page.cache_clear()
    for _ in range(5):
        lab.browser.get(path)
    assert rendered._page.cache_info().misses == 1


def test_printing_has_a_style_of_its_own() -> None:
    page = (Path(rendered.__file__).parents[1] / "static" / "dashboard.html").read_text()
    printed = page.partition("@media print")[2]
    assert "break-inside: avoid" in page
    assert "max-height: none" in printed
