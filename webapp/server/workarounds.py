"""Work-arounds for Streamlit 1.67: what each gains, and the setting `web_workarounds` that turns each off.

Each relies on something that Streamlit does not promise, so each can go without changing what a page shows.
"""

from __future__ import annotations

import functools
import gc
import importlib
import socket
import sys
from collections.abc import Collection, Sequence

import psutil

from host.settings import load_settings
from lab.errors import SettingsError

SCRIPT_LOCK, FIRST_PAINT, INDEX_HTML = "script_lock", "first_paint", "index_html"
TCP_NODELAY, SWITCH_INTERVAL, GC_FREEZE = "tcp_nodelay", "switch_interval", "gc_freeze"
SESSION_TURNS, STATE_LOOKUPS = "session_turns", "state_lookups"
NAMES = (SCRIPT_LOCK, SESSION_TURNS, STATE_LOOKUPS, FIRST_PAINT, INDEX_HTML, TCP_NODELAY, SWITCH_INTERVAL, GC_FREEZE)
#: Python's own choice is 0.005.
_SWITCH_S = 0.0005


def parse(text: str) -> frozenset[str]:
    """The names in a comma-separated list. Raises SettingsError for a name that is not one of NAMES."""
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if unknown := sorted(names.difference(NAMES)):
        raise SettingsError(
            f"DRAFTHOUSE_WEB_WORKAROUNDS (or web_workarounds in drafthouse.toml) has {', '.join(map(repr, unknown))}: "
            f"use any of {', '.join(NAMES)}, separated by commas"
        )
    return names


@functools.cache
def enabled() -> frozenset[str]:
    """The work-arounds that are on in this process."""
    return parse(load_settings().web_workarounds)


def prepare_process(modules: Sequence[str], on: Collection[str]) -> None:
    """Before the first visitor: import `modules`, and apply what concerns the whole process."""
    for module in modules:
        importlib.import_module(module)
    if SESSION_TURNS in on:
        from webapp.server import session_turns  # noqa: PLC0415 - imports of Streamlit's that only this needs

        session_turns.take_turns()
    if STATE_LOOKUPS in on:
        from webapp.server import state_lookups  # noqa: PLC0415 - likewise

        state_lookups.look_up_singly()
    if TCP_NODELAY in on:
        _send_without_delay()
    if SWITCH_INTERVAL in on:
        _shorten_switch_interval()
    if GC_FREEZE in on:
        _freeze_imports()


def _send_without_delay() -> None:
    """`tcp_nodelay` saves each page the 40 ms that Nagle's algorithm waits for a delayed acknowledgement.

    Asyncio sets TCP_NODELAY for sockets made for TCP, but Streamlit makes its listening socket without a protocol.
    Connections inherit the option from the listening socket.
    """
    for connection in psutil.Process().net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN:
            with socket.fromfd(connection.fd, connection.family, connection.type) as listening:
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _shorten_switch_interval() -> None:
    """`switch_interval`: a message waits at most 0.5 ms, not 5 ms, for the script of another visitor's page."""
    sys.setswitchinterval(_SWITCH_S)


def _freeze_imports() -> None:
    """`gc_freeze`, with the imports above, cut 20 new sessions at once from 1.5-1.8 s to 1.05 s.

    That was with Streamlit's full garbage collection after each run, which `.streamlit/config.toml` turns off by now;
    the collections that Python itself makes still skip what is frozen. Nothing is collected before: a quarter of a
    second, for a few thousand small objects.
    """
    gc.freeze()
