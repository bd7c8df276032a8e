"""Streamlit's scripts, style sheets and icons, made small.

Streamlit serves them as they are: 4 MB before the first chart, which is 20 s at 1.6 Mbit/s. Here scripts and style
sheets are compressed once and kept (a tenth of a second of a processor and 1.5 MB in all), and the font of 4,000 icons
has only those that a page can name. Names of scripts and style sheets hold a digest of their content, so a browser
asks for each once.
"""

from __future__ import annotations

import asyncio
import functools
import gzip
import mimetypes
from pathlib import Path

import streamlit as st
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

_STATIC = Path(st.__file__).parent / "static"
#: The font from which `make icons` makes ICONS. Another Streamlit has another name, and serves its own.
ICON_FONT = _STATIC / "static/media/MaterialSymbols-Rounded.nEdyypZU.woff2"
ICONS = Path(__file__).parents[1] / "static/icons.woff2"
_ICONS_PATH = f"/{ICON_FONT.relative_to(_STATIC)}"
_LEVEL = 6
_HEADERS = {
    "Cache-Control": "public, immutable, max-age=31536000",
    "Content-Encoding": "gzip",
    "Vary": "Accept-Encoding",
}


class Compressed:
    """Middleware: Streamlit refuses routes below /static/. Streamlit answers what this does not make smaller."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_read = scope["type"] == "http" and scope["method"] == "GET"
        if is_read and scope["path"] == _ICONS_PATH and ICON_FONT.exists():
            font = await StaticFiles(directory=ICONS.parent).get_response(ICONS.name, scope)
            font.headers["Cache-Control"] = "no-cache"  # a release with more icons has them under the same name
            return await font(scope, receive, send)
        file = _files().get(scope["path"]) if is_read else None
        if file is None or not _accepts_gzip(Headers(scope=scope).get("accept-encoding", "")):
            return await self._app(scope, receive, send)
        body = await asyncio.to_thread(_compressed, file)
        answer = Response(body, media_type=mimetypes.guess_type(file.name)[0], headers=_HEADERS)
        return await answer(scope, receive, send)


@functools.cache
def _files() -> dict[str, Path]:
    """Return the files by their path on the server."""
    return {
        f"/{file.relative_to(_STATIC)}": file for kind in ("js", "css") for file in _STATIC.glob(f"static/{kind}/*")
    }


@functools.cache
def _compressed(file: Path) -> bytes:
    return gzip.compress(file.read_bytes(), _LEVEL, mtime=0)


def _accepts_gzip(header: str) -> bool:
    """Return whether the header names gzip without the quality 0, by which a client refuses it."""
    for part in header.lower().split(","):
        coding, _, parameters = part.partition(";")
        if coding.strip() == "gzip":
            return parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
