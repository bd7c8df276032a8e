"""How large the body of a request may be, before anything of it is read."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from warehouse.importers.files import LARGEST_IMPORT_BYTES, MIB
from webapp.api.problems import problem

_FORM_BYTES = MIB  # what a form adds to its files
_MOST = {"imports": LARGEST_IMPORT_BYTES + _FORM_BYTES, "datasets": LARGEST_IMPORT_BYTES}
_MOST_OTHERS = 2 * MIB


class BodyLimit:
    """Refuses a body that is too long, or does not say how long it is. The server holds a body to what it said."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            length = headers.get("content-length", "0")
            most = next((most for name, most in _MOST.items() if f"/{name}" in scope["path"]), _MOST_OTHERS)
            if "transfer-encoding" in headers:
                await problem(411, "send the body with its length")(scope, receive, send)
                return
            if not length.isdecimal() or int(length) > most:
                await problem(413, f"the body is longer than {most // MIB} MiB")(scope, receive, send)
                return
        await self._app(scope, receive, send)
