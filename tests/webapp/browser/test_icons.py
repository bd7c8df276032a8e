"""The font of icons has a glyph for each name that the pages, or Streamlit in them, give."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.webapp.browser.conftest import Server
from tests.webapp.icons import names

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1800)]
_DRAW = """async ([address, names]) => {
    const font = await new FontFace('icons', `url(${address})`).load();
    document.fonts.add(font);
    const box = document.body.appendChild(document.createElement('span'));
    box.style = 'font: 24px icons; position: absolute; white-space: nowrap';
    return names.map(name => { box.textContent = name; return [name, box.getBoundingClientRect().width]; });
}"""


def test_every_icon_is_one_glyph(server: Server, page: Page) -> None:
    page.goto(f"{server.url}/healthz")
    font = f"{server.url}/static/media/MaterialSymbols-Rounded.nEdyypZU.woff2"
    widths_px = dict(page.evaluate(_DRAW, [font, [*names(), "an icon that nobody names"]]))
    assert widths_px.pop("an icon that nobody names") > 100
    assert len(widths_px) > 100
    assert {name: width for name, width in widths_px.items() if width != 24} == {}, "make icons"
