"""`python -m webapp`: serve the pages on the address of the settings until a signal comes."""

from __future__ import annotations

import os
import sys

from access.web import oidc, start_token
from access.web.headers import frame_origins
from access.web.hosts import hosts_of, refuse_open_page, refuse_taken_port, trusted_proxies
from host.private_files import write_for_nobody_else
from host.process_memory import limit_memory
from host.settings import Settings, load_settings
from lab.errors import UserError
from webapp.server import workarounds

_SCHEMES = ("http", "https")


def streamlit_options(settings: Settings) -> dict[str, object]:
    """Return Streamlit's options that depend on our settings; the others are in `.streamlit/config.toml` here.

    The guard is stricter than Streamlit's own checks of host and origin: it also looks at ports and at plain requests.
    """
    hosts = hosts_of(settings)
    return {
        "server.address": settings.web_host,
        "server.port": settings.web_port,
        "server.allowedHosts": sorted(hosts.names),
        "server.corsAllowedOrigins": sorted(f"{scheme}://{host}" for host in hosts.public for scheme in _SCHEMES),
        "browser.serverAddress": settings.web_host,
        # Origins whose pages may embed this one in a frame and command it; Streamlit's default is its own cloud.
        "client.allowedOrigins": list(frame_origins(settings)),
    }


def main() -> int:
    write_for_nobody_else()
    try:
        settings = load_settings()
        workarounds.parse(settings.web_workarounds)
        refuse_open_page(settings)
        os.environ["FORWARDED_ALLOW_IPS"] = trusted_proxies(settings)  # uvicorn's, which believes 127.0.0.1 by default
        oidc.refuse_incomplete(settings)
        start_token.ensure(settings)
        refuse_taken_port(settings.web_host, settings.web_port)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    limit_memory(settings.web_memory_mib)
    from webapp.server.asgi import app  # noqa: PLC0415 - a second of imports that a refused port should not wait for
    from webapp.server.connections import guard_connections  # noqa: PLC0415 - likewise

    guard_connections()
    app.run(config=streamlit_options(settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
