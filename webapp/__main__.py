"""`python -m webapp`: serve the pages on the address of the settings until a signal comes."""

from __future__ import annotations

import socket
import sys

from lab.errors import UserError
from warehouse.process_memory import limit_memory
from warehouse.settings import load_settings
from webapp.server import workarounds

#: A visitor's browser must ask for one of these, or a page of elsewhere could talk to this server (DNS rebinding).
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared with, never bound by default


def refuse_taken_port(host: str, port: int) -> None:
    """Streamlit would look for another port, or end in a log line. Raises UserError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise UserError(
                f"the page cannot listen on {host}:{port} ({error.strerror}): "
                "stop what listens there, or set DRAFTHOUSE_WEB_HOST and DRAFTHOUSE_WEB_PORT"
            ) from None


def streamlit_options(host: str, port: int) -> dict[str, object]:
    """Streamlit's options that depend on our settings; `.streamlit/config.toml` beside this file has the others."""
    hosts = ["*"] if host in _ANY_ADDRESS else sorted({*LOCAL_HOSTS, host})
    return {
        "server.address": host,
        "server.port": port,
        "server.allowedHosts": hosts,
        "browser.serverAddress": host,
    }


def main() -> int:
    try:
        settings = load_settings()
        workarounds.parse(settings.web_workarounds)
        refuse_taken_port(settings.web_host, settings.web_port)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    limit_memory(settings.web_memory_mib)
    from webapp.server.asgi import app  # noqa: PLC0415 - a second of imports that a refused port should not wait for

    app.run(config=streamlit_options(settings.web_host, settings.web_port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
