"""The home of tests that need its databases."""

from tests.warehouse.conftest import settings

__all__ = ["settings"]
