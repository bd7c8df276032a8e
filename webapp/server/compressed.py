"""Streamlit's scripts and style sheets, compressed.

Streamlit serves them as they are: 3.7 MB before the first chart, which takes 20 s at 1.6 Mbit/s. Here each is
compressed once and kept (a tenth of a second of a processor and 1.5 MB in all). Their names hold a digest of their
content, so a browser asks for each once.
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
from starlette.types import ASGIApp, Receive, Scope, Send

_STATIC = Path(st.__file__).parent / "static"
_LEVEL = 6
_HEADERS = {
    "Cache-Control": "public, immutable, max-age=31536000",
    "Content-Encoding": "gzip",
    "Vary": "Accept-Encoding",
}


class Compressed:
    """Middleware: Streamlit refuses routes below /static/. Streamlit answers what this does not compress."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        file = _files().get(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
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
