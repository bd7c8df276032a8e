"""Scripts and style sheets reach the browser compressed, byte for byte the same; the icons without those unused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient

from webapp.server.compressed import ICON_FONT, Compressed

_STATIC = Path(st.__file__).parent / "static/static"
_LARGEST = max((_STATIC / "js").iterdir(), key=lambda file: file.stat().st_size)


@pytest.fixture
def client() -> TestClient:
    as_they_are = Starlette(routes=[Mount("/static", StaticFiles(directory=_STATIC))])
    return TestClient(Compressed(as_they_are))


@pytest.mark.parametrize("file", [_LARGEST, next((_STATIC / "css").iterdir())], ids=["script", "style sheet"])
def test_a_browser_gets_a_fraction_of_the_bytes(client: TestClient, file: Path) -> None:
    address = f"/static/{file.parent.name}/{file.name}"
    with client.stream("GET", address, headers={"Accept-Encoding": "br;q=1.0, gzip;q=0.8"}) as answer:
        sent = b"".join(answer.iter_raw())
    assert answer.headers["content-encoding"] == "gzip"
    assert "immutable" in answer.headers["cache-control"]
    assert gzip.decompress(sent) == file.read_bytes()
    assert len(sent) < 0.5 * file.stat().st_size


@pytest.mark.parametrize("accepted", ["", "identity", "gzip;q=0", "gzip; q=0.0, br"])
def test_a_client_without_gzip_gets_the_file_as_it_is(client: TestClient, accepted: str) -> None:
    answer = client.get(f"/static/js/{_LARGEST.name}", headers={"Accept-Encoding": accepted})
    assert "content-encoding" not in answer.headers
    assert answer.content == _LARGEST.read_bytes()
    assert answer.headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("name", ["none.js", "..%2Findex.html", "%2e%2e%2findex.html"])
def test_no_other_file_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"/static/js/{name}").status_code == 404


def test_the_font_of_icons_is_a_tenth_of_streamlits(client: TestClient) -> None:
    answer = client.get(f"/static/media/{ICON_FONT.name}")
    assert answer.headers["content-type"] == "font/woff2"
    assert len(answer.content) < 0.1 * ICON_FONT.stat().st_size


def test_a_browser_asks_whether_there_are_new_icons_and_loads_them_only_then(client: TestClient) -> None:
    first = client.get(f"/static/media/{ICON_FONT.name}")
    assert first.headers["cache-control"] == "no-cache"
    known = {"If-None-Match": first.headers["etag"]}
    again = client.get(f"/static/media/{ICON_FONT.name}", headers=known)
    assert (again.status_code, again.content) == (304, b"")


def test_other_fonts_are_streamlits_own(client: TestClient) -> None:
    other = next(ICON_FONT.parent.glob("SourceSans*"))
    assert client.get(f"/static/media/{other.name}").content == other.read_bytes()
