"""A shared item as one self-contained HTML file, and a picture for previews; each is drawn once per publication."""

from __future__ import annotations

import functools
import gzip
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from html import escape

from access.shared_links import Kind
from access.web.headers import script_digests
from warehouse.app_db import dashboards
from warehouse.queries.point_in_time import as_of
from webapp.links.content import Content, content_of
from webapp.pages.dashboards import html_export
from webapp.shared import downloads, published_data
from webapp.shared.downloads import SOURCE, About
from webapp.shared.published_data import Publication
from webapp.shared.text import moment

#: Each page is some three hundred kilobytes.
_MAX_PAGES = 32
_MOST_IN_PREVIEW = 300
#: Placeholder for the page's own address, which holds the link's secret and so is not cached with the page.
_ADDRESS = "https://address.invalid/of-the-link"
#: Drawing takes the processor from those who have signed in: one at a time.
_DRAWING = threading.Lock()


@dataclass(frozen=True)
class Page:
    """A rendered page. `html` is compressed by gzip; `scripts` are the digests of its permitted scripts."""

    html: bytes
    scripts: tuple[str, ...]

    def at(self, address: str, *, embed: bool = False) -> bytes:
        """Return the HTML for visitors of this address."""
        text = gzip.decompress(self.html).replace(_ADDRESS.encode(), escape(address).encode())
        return text.replace(b"<body>", b'<body class="embed">', 1) if embed else text


def page(kind: Kind, subject: str, seen: datetime | None = None) -> Page | None:
    """Return the page of the shared item; None if it does not exist. Raises UserError without a warehouse.

    `seen`: the point in time of its data; None for the newest.
    """
    with _DRAWING, as_of(seen):
        return _page(kind, subject, *_state(kind, subject))


def picture(kind: Kind, subject: str, seen: datetime | None = None) -> bytes | None:
    """Return a PNG of the first chart, as `page` shows it; None if there is no chart."""
    with _DRAWING, as_of(seen):
        return _picture(kind, subject, *_state(kind, subject))


def _state(kind: Kind, subject: str) -> tuple[Publication, object]:
    """Return what the files depend on: the published data, and the last change of a dashboard."""
    board = dashboards.find(published_data.engine(), subject) if kind is Kind.DASHBOARD else None
    return published_data.publication(), board


@functools.lru_cache(_MAX_PAGES)
def _page(kind: Kind, subject: str, _published: Publication, _board: object) -> Page | None:
    content = content_of(kind, subject)
    if content is None:
        return None
    about = About(content.title, as_of=published_data.published_at())
    line = f"{SOURCE}, data of {moment(about.as_of)}"
    html = html_export.html(about, content.sheets, head=_head(content), intro=_intro(content), line=line)
    return Page(gzip.compress(html, 6), tuple(script_digests(html.decode())))


@functools.lru_cache(_MAX_PAGES)
def _picture(kind: Kind, subject: str, _published: Publication, _board: object) -> bytes | None:
    content = content_of(kind, subject)
    if content is None or content.picture is None:
        return None
    return downloads.png(*content.picture, "light")


def _head(content: Content) -> str:
    """Return the tags that chat tools and search engines read, which exclude the latter."""
    sentence = content.sentence[:_MOST_IN_PREVIEW]
    tags = {
        "og:site_name": SOURCE,
        "og:type": "article",
        "og:title": content.title,
        "og:description": sentence,
        "og:url": _ADDRESS,
    }
    if content.picture is not None:
        tags |= {"og:image": f"{_ADDRESS}/picture.png", "og:image:type": "image/png", "og:image:alt": sentence}
    named = {"description": sentence, "robots": "noindex, nofollow", "twitter:card": "summary_large_image"}
    lines = [*_metas("property", tags.items()), *_metas("name", named.items())]
    return "\n".join(lines)


def _metas(attribute: str, tags: Iterable[tuple[str, str]]) -> list[str]:
    return [f'<meta {attribute}="{name}" content="{escape(value)}">' for name, value in tags]


def _intro(content: Content) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in content.lines)
    return f'<p class="answer">{escape(content.sentence)}</p>' + (f'<ul class="answer">{lines}</ul>' if lines else "")
