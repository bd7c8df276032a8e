"""The home that a verb works in."""

from __future__ import annotations

from host.settings import Settings, load_settings
from warehouse.migrate import ensure_migrated


def ready_settings() -> Settings:
    """Load the settings. On first use, create the home and its databases. Raises UserError if it cannot be written."""
    settings = load_settings()
    ensure_migrated(settings)
    return settings
