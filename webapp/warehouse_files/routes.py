"""`/warehouse/<digest>.duckdb`, which never changes, and `/warehouse/latest`, which redirects to the newest of them;
and the files of the archive beside it, `/warehouse/archive/<name>.parquet`, which never change either.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Mapping
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from access.web.gate import Gate
from lab.errors import UnknownNameError, UserError
from warehouse.snapshots import Snapshot, Snapshots

#: A new snapshot of a large warehouse takes seconds: waiting for it must not take threads from others.
_THREADS = 4
_A_YEAR_S = 365 * 24 * 3600
_NEWEST = ("/warehouse/latest", "/warehouse/latest.duckdb")
_NOT_STORED = {"Cache-Control": "no-store"}
_MOST_READERS = 10_000
_ARCHIVED = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,99}\.parquet")


class Readers:
    """The snapshot of each reader of `latest`. DuckDB requests `latest` again for each range and follows the redirect
    each time, which must lead to the same file throughout one read.
    """

    def __init__(self) -> None:
        self._digests: dict[bytes, str] = {}

    def reading(self, request: Request) -> str | None:
        """Return the snapshot for a range request; None for a first request."""
        is_range = request.method == "GET" and "range" in request.headers
        return self._digests.get(_reader(request)) if is_range else None

    def begin(self, request: Request, digest: str) -> None:
        if len(self._digests) >= _MOST_READERS:
            self._digests.clear()
        self._digests[_reader(request)] = digest


def _reader(request: Request) -> bytes:
    """Return a digest of what identifies the reader."""
    named = (request.headers.get(name, "") for name in ("authorization", "cookie", "user-agent"))
    parts = (request.client.host if request.client else "", request.url.query, *named)
    return hashlib.sha256("\0".join(parts).encode()).digest()


def warehouse_routes(gate: Gate) -> list[Route]:
    """Return the routes; the guard has authorised their requests."""
    snapshots = Snapshots(gate.settings.home, gate.settings.warehouse_file, gate.settings.web_snapshots)
    limiter, readers = CapacityLimiter(_THREADS), Readers()

    def leading_to(digest: str | None) -> Snapshot:
        if digest is not None:
            with contextlib.suppress(UnknownNameError):
                return snapshots.find(digest)
        return snapshots.newest()

    async def lead_to_newest(request: Request) -> Response:
        try:
            found = await to_thread.run_sync(leading_to, readers.reading(request), limiter=limiter)
        except UserError as error:
            return PlainTextResponse(str(error), 404)
        readers.begin(request, found.digest)
        return RedirectResponse(f"{request.scope.get('root_path', '')}/warehouse/{found.file.name}", 307, _NOT_STORED)

    async def send(request: Request) -> Response:
        try:
            found = await to_thread.run_sync(partial(snapshots.find, request.path_params["digest"]), limiter=limiter)
        except UnknownNameError as error:
            return PlainTextResponse(str(error), 404)
        published = {"Last-Modified": format_datetime(found.published_at, usegmt=True)}
        return _sent(request, found.file, found.digest, "application/vnd.duckdb.database", published)

    async def send_archived(request: Request) -> Response:
        file = gate.settings.archive_dir / request.path_params["name"]
        if not _ARCHIVED.fullmatch(file.name) or not await to_thread.run_sync(file.is_file, limiter=limiter):
            return PlainTextResponse("there is no such file in the archive", 404)
        return _sent(request, file, file.stem, "application/vnd.apache.parquet")

    return [
        *(Route(path, lead_to_newest) for path in _NEWEST),
        Route("/warehouse/{digest}.duckdb", send),
        Route("/warehouse/archive/{name}", send_archived),
    ]


def _sent(
    request: Request, file: Path, tag: str, media_type: str, more: Mapping[str, str] = MappingProxyType({})
) -> Response:
    """Return a response with an immutable file, or its requested ranges."""
    etag = f'"{tag}"'
    headers = {"ETag": etag, "Cache-Control": f"private, max-age={_A_YEAR_S}, immutable", **more}
    if etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    # Otherwise Streamlit's server would compress it, and a part of a file cannot be cut from the compressed one.
    headers["Content-Encoding"] = "identity"
    return FileResponse(file, media_type=media_type, headers=headers)
