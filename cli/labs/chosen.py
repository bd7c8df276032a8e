"""The lab that the settings choose."""

from __future__ import annotations

from cli.labs.here import Here
from cli.labs.lab import Lab
from host.settings import load_settings
from warehouse.migrate import ensure_migrated


def the_lab(*, ready: bool = True) -> Lab:
    """The lab at `--server` or DRAFTHOUSE_SERVER, else that of this machine.

    `ready` creates this machine's home and its databases on first use. Raises UserError if it cannot be written.
    """
    settings = load_settings()
    if settings.server:
        from cli.labs.elsewhere import Elsewhere  # noqa: PLC0415 - most commands are for this machine's lab

        return Elsewhere(settings.server, settings.token)
    if ready:
        ensure_migrated(settings)
    return Here(settings)
