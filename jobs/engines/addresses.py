"""Addresses that a server named by a user may not have: those where a cloud keeps credentials for whoever asks.

A study is written by people, and the worker sits inside a network: without this a study could make it read the
metadata service of its host. Loopback and private addresses are what a lab's servers have, and are fine.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from urllib.parse import urlsplit

from aiohttp.abc import AbstractResolver, ResolveResult

from lab.errors import UserError

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
#: Metadata services outside the link-local range: AWS over IPv6, Alibaba Cloud, Oracle Cloud.
_METADATA = frozenset(map(ipaddress.ip_address, ("fd00:ec2::254", "100.100.100.200", "192.0.0.192")))
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_HOW = "set allow_metadata_addresses if you mean it"


class RefusedAddress(UserError, OSError):  # noqa: N818 - it reads as what it is
    """An address that is not connected to. An OSError too, because aiohttp takes those for a failed connection."""

    def __init__(self, host: str, address: IPAddress | None, why: str) -> None:
        where = host if address is None or str(address) == host else f"{host} ({address})"
        super().__init__(f"{where} is not connected to: {why}; {_HOW}")
        self.strerror = str(self)  # what aiohttp says of the failed connection


def check_address(host: str, address: str) -> None:
    """Raises RefusedAddress for an address of the kinds above."""
    seen = ipaddress.ip_address(address.partition("%")[0])
    for meant in (seen, _inner(seen)):
        if meant is not None and (why := _why_refused(meant)) is not None:
            raise RefusedAddress(host, seen, why)


def check_host(base_url: str) -> None:
    """Resolve the URL's host and check every address. Raises RefusedAddress, and UserError if it has no address."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    _check_name(host)
    try:
        found = socket.getaddrinfo(host, parts.port or 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UserError(f"the host {host!r} has no address: {error}") from None
    for *_, address in found:
        check_address(host, str(address[0]))


class CheckedResolver(AbstractResolver):
    """Resolves a name once and gives out only checked addresses: what was checked is what is connected to."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        _check_name(host)
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        for *_, address in found:
            check_address(host, str(address[0]))
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Nothing is held open."""


def _check_name(host: str) -> None:
    """Also without DNS: where such a name does not resolve here, it may resolve where the worker is."""
    if host.rstrip(".").lower() in _METADATA_NAMES:
        raise RefusedAddress(host, None, "it is a metadata service")


def _inner(address: IPAddress) -> IPAddress | None:
    """The IPv4 address that an IPv6 one stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _why_refused(address: IPAddress) -> str | None:
    reasons = (
        (address in _METADATA, "it is a metadata service"),
        (address.is_link_local, "it is a link-local address, where metadata services are"),
        (address.is_unspecified, "it is no address of a server"),
        (address.is_multicast, "it is a multicast address"),
    )
    return next((why for refused, why in reasons if refused), None)
