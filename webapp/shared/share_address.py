"""The addresses of what is shared and printed."""

from __future__ import annotations

from access.web.guard import SHARED
from host.settings import Settings

#: The same page for those who have signed in, for their printer.
PRINT = "/print"


def shared_address(settings: Settings, secret: str) -> str:
    """A link as it is given to somebody."""
    return f"{settings.public_url}{SHARED}/{secret}"
