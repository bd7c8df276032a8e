"""Refuses a server's address if a cloud hands credentials to any local process there.

People write studies, and the worker sits inside a network: without this check a study could make the worker read its
host's metadata service. Loopback and private addresses are allowed, because a lab's servers have them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from urllib.parse import urlsplit

from lab.errors import UserError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
#: Metadata services outside the link-local range: AWS and its Kubernetes over IPv6, Google Cloud over IPv6, Alibaba
#: Cloud, Oracle Cloud, Azure.
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        ("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
    )
)
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
#: Networks whose addresses end in an IPv4 address.
_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_HOW = "set allow_metadata_addresses if you mean it"


class RefusedAddress(UserError, OSError):  # noqa: N818 - a verdict on an address, raised and shown as it is
    """An address that we do not connect to. Also an OSError, which aiohttp treats as a failed connection."""

    def __init__(self, host: str, address: IPAddress | None, why: str) -> None:
        where = host if address is None or str(address) == host else f"{host} ({address})"
        super().__init__(f"{where} is refused: {why}; {_HOW}")
        self.strerror = str(self)  # aiohttp prints this for a failed connection


def check_address(host: str, address: str) -> None:
    """Raise RefusedAddress for a metadata service and for an address that no server can have."""
    written = ipaddress.ip_address(address.partition("%")[0])
    for meant in (written, _inner(written)):
        if meant is not None and (why := _why_refused(meant)) is not None:
            raise RefusedAddress(host, written, why)


def check_host(base_url: str) -> None:
    """Resolve the URL's host and check every address. Raises RefusedAddress, or UserError if there is no address."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    check_name(host)
    try:
        resolved = socket.getaddrinfo(host, parts.port or 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UserError(f"the host {host!r} has no address: {error}") from None
    for *_, address in resolved:
        check_address(host, str(address[0]))


def check_written(base_url: str) -> None:
    """Check what the URL itself says, without resolving a name. Raises RefusedAddress."""
    host = urlsplit(base_url).hostname or ""
    check_name(host)
    with contextlib.suppress(ValueError):  # a name
        check_address(host, str(ipaddress.ip_address(host)))


def check_name(host: str) -> None:
    """Raise RefusedAddress for a metadata service's name. Works without DNS too: a name that does not resolve here may
    resolve on the worker.
    """
    if host.rstrip(".").lower() in _METADATA_NAMES:
        raise RefusedAddress(host, None, "it is a metadata service")


def _inner(address: IPAddress) -> IPAddress | None:
    """Return the IPv4 address that an IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if any(address in network for network in _NAT64):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _why_refused(address: IPAddress) -> str | None:
    reasons = (
        (address in _METADATA, "it is a metadata service"),
        (address.is_link_local, "it is a link-local address, where metadata services are"),
        (address.is_unspecified, "it is not an address of a server"),
        (address.is_multicast, "it is a multicast address"),
    )
    return next((why for refused, why in reasons if refused), None)
