"""`/drafthouse.py`: the client for notebooks as one file, of this lab's version."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route

from access.web.guard import CLIENT

_FILE = Path(__file__).parents[2] / "drafthouse.py"


def client_route() -> Route:
    async def send(_request: Request) -> FileResponse:
        return FileResponse(
            _FILE, media_type="text/x-python", filename=_FILE.name, headers={"Cache-Control": "no-cache"}
        )

    return Route(CLIENT, send)
