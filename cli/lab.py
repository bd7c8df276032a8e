"""The lab that a verb works on: the home of this machine, or a lab elsewhere, over its API (`--server`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from cli.here import Here
from host.settings import Settings, load_settings
from warehouse.migrate import ensure_migrated

if TYPE_CHECKING:
    import sqlalchemy as sa

    from cli.elsewhere import Elsewhere

Lab: TypeAlias = "Here | Elsewhere"


def the_lab(*, ready: bool = True) -> Lab:
    """Return the lab at `--server` or DRAFTHOUSE_SERVER, else that of this machine.

    `ready` creates this machine's home and its databases on first use. Raises UserError if the home cannot be written.
    """
    settings = load_settings()
    if settings.server:
        from cli.elsewhere import Elsewhere  # noqa: PLC0415 - most commands are for this machine's lab

        return Elsewhere(settings.server, settings.token)
    if ready:
        ensure_migrated(settings)
    return Here(settings)


def ready_database() -> sa.Engine:
    """Connect to the app database of this machine's home, which is created on first use."""
    return Here(ready_settings()).database


def ready_settings() -> Settings:
    """Load the settings. On first use, create the home and its databases. Raises UserError if the home cannot be
    written.
    """
    settings = load_settings()
    ensure_migrated(settings)
    return settings
