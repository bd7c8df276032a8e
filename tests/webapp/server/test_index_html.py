"""The HTML that pages begin with."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.testclient import TestClient

from webapp.server import asgi


def test_every_page_begins_with_streamlits_own_html_and_where_the_server_is() -> None:
    pages = TestClient(Starlette(routes=asgi.page_routes()))
    for path in ("/", "/results", "/results", "/compare"):
        answer = pages.get(path)
        assert answer.headers["cache-control"] == "no-cache"
        assert int(answer.headers["content-length"]) == len(answer.content)
        assert answer.text.index("BACKEND_BASE_URL") < answer.text.index("</head>")
        assert '<div id="root">' in answer.text
