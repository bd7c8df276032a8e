"""Work-arounds for Streamlit 1.67: what each gains, and the setting `web_workarounds` that turns each off.

Each relies on something that Streamlit does not promise, so each can go without changing what a page shows.
"""

from __future__ import annotations

import functools

from host.settings import load_settings
from lab.errors import SettingsError

SCRIPT_LOCK, SESSION_TURNS, INDEX_HTML = "script_lock", "session_turns", "index_html"
NAMES = (SCRIPT_LOCK, SESSION_TURNS, INDEX_HTML)


def parse(text: str) -> frozenset[str]:
    """Parse a comma-separated list of names. Raises SettingsError for a name that is not in NAMES."""
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if unknown := sorted(names.difference(NAMES)):
        raise SettingsError(
            f"DRAFTHOUSE_WEB_WORKAROUNDS (or web_workarounds in drafthouse.toml) has {', '.join(map(repr, unknown))}: "
            f"use any of {', '.join(NAMES)}, separated by commas"
        )
    return names


@functools.cache
def enabled() -> frozenset[str]:
    """Return the work-arounds that are on in this process."""
    return parse(load_settings().web_workarounds)
