"""Host names that the page accepts, origins from which requests may come, and settings that prevent its start.

A foreign page can make a browser send requests here (cross-site, or by a name that it points to this address):
the names in Host and Origin give it away.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from host.settings import Settings
from lab.errors import SettingsError, UserError

#: This machine's names for itself.
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_ANY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared with, never bound by default


@dataclass(frozen=True)
class Hosts:
    """`names` are host names in lower case; `public` may have ports too, for origins behind a proxy."""

    names: frozenset[str]
    public: frozenset[str]

    def answers(self, host: str | None) -> bool:
        """Return whether a request with this Host header is answered."""
        return host is not None and _name_in(host) in self.names

    def trusts(self, origin: str | None, host: str | None) -> bool:
        """Return whether a page of this origin may send requests that change something, or open a websocket."""
        if origin is None:
            return False
        netloc = urlsplit(origin).netloc.lower()
        return bool(netloc) and (netloc == (host or "").lower() or netloc in self.public)


def hosts_of(settings: Settings) -> Hosts:
    own = () if settings.web_host in _ANY_ADDRESS else (*LOCAL_NAMES, settings.web_host.lower())
    public = settings.public_hosts
    names = {*own, *(_name_in(host) for host in public)}
    return Hosts(frozenset(name for name in names if name), frozenset(public))


def refuse_open_page(settings: Settings) -> None:
    """Raise SettingsError if anybody on the network could come in, or the page could not identify visitors."""
    if settings.web_login == "none" and not is_loopback(settings.web_host):
        raise SettingsError(
            f"the page would listen on {settings.web_host} without a login, and whoever submits a study uses this "
            "machine: set DRAFTHOUSE_WEB_LOGIN=accounts and run `drafthouse user add NAME --role administrator` "
            "(docs/deployment.md has the other logins), or leave DRAFTHOUSE_WEB_HOST at 127.0.0.1"
        )
    if settings.web_host in _ANY_ADDRESS and not settings.public_hosts:
        raise SettingsError(
            f"the page would listen on every address ({settings.web_host}) and cannot know its own name: set "
            "DRAFTHOUSE_WEB_PUBLIC_HOSTS to the names by which browsers reach it, such as localhost,lab.example.org"
        )
    if wrong := sorted(name for name in settings.public_hosts if not _name_in(name) or "*" in name):
        raise SettingsError(
            f"DRAFTHOUSE_WEB_PUBLIC_HOSTS has {', '.join(map(repr, wrong))}: use names such as lab.example.org or "
            "lab.example.org:8443, without a scheme, a path or a *"
        )


def trusted_proxies(settings: Settings) -> str:
    """Return the addresses and networks of `web_proxies` for uvicorn, separated by commas. Raises SettingsError.

    If the page listens on `::`, each IPv4 address is also given in its IPv6 form.
    """
    trusted: list[str] = []
    for text in filter(None, map(str.strip, settings.web_proxies.split(","))):
        try:
            network = ipaddress.ip_network(text)
        except ValueError as error:
            raise SettingsError(
                f"DRAFTHOUSE_WEB_PROXIES has {text!r} ({error}): use addresses or networks such as 127.0.0.1 or "
                "172.18.0.0/16"
            ) from None
        trusted.append(str(network))
        if network.version == 4:
            trusted.append(f"::ffff:{network.network_address}/{96 + network.prefixlen}")
    return ",".join(trusted)


def refuse_taken_port(host: str, port: int) -> None:
    """Raise UserError for a taken port. Streamlit would choose another one, or end with a line in its log."""
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


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine can reach the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _name_in(host: str) -> str:
    """Return the name in `name:port`, in lower case; empty for anything else."""
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port  # raises ValueError for an invalid port
    except ValueError:
        return ""
    is_plain = parts.netloc == host and parts.username is None and parts.password is None
    return (parts.hostname or "").rstrip(".") if is_plain else ""
