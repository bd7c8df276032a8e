"""`drafthouse migrate` and `drafthouse rebuild`."""

from __future__ import annotations

from cli.lab import ready_settings
from cli.output import print_text
from host.settings import load_settings
from warehouse.ingest.rebuild import rebuild as rebuild_warehouse
from warehouse.migrate import migrate as migrate_home


def migrate() -> None:
    """Create both databases, or upgrade them to this version; safe to repeat."""
    settings = load_settings()
    migrate_home(settings)
    print_text(f"both databases of {settings.home.absolute()} are up to date")


def rebuild() -> None:
    """Rebuild the warehouse from the bundles alone."""
    settings = ready_settings()
    rebuild_warehouse(settings)
    print_text(f"rebuilt {settings.warehouse_file} from the bundles in {settings.bundles}")
