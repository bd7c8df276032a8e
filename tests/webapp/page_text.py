"""Reading and clicking a page under AppTest."""

from __future__ import annotations

import html
import re

from streamlit.testing.v1 import AppTest

_KINDS = ("title", "header", "subheader", "markdown", "caption", "warning", "info", "error", "success")


def words(app: AppTest) -> str:
    """The text of the page without Markdown's backslashes and invisible word joiners, kind by kind."""
    shown = [element.value for kind in _KINDS for element in getattr(app, kind)]
    raw = [html.unescape(element.proto.body) for element in app.get("html")]
    return re.sub(r"[\\\u2060]", "", "\n".join([*shown, *raw]))


def ran(app: AppTest) -> AppTest:
    assert not app.exception, app.exception
    return app


def click(app: AppTest, label: str) -> AppTest:
    """Click the first button with this label."""
    return ran(next(button for button in app.button if button.label == label).click().run())


def charts(app: AppTest) -> int:
    return len(app.get("vega_lite_chart"))
