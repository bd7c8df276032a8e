"""Addresses of visitors, by which tries and queues are counted."""

from __future__ import annotations

import ipaddress

#: The prefix of an IPv6 address that one customer gets: within it they can use as many addresses as they like.
_IPV6_PREFIX = 64
#: The address of a visitor without a known one.
UNKNOWN = "unknown"


def network_of(address: str) -> str:
    """Return an IPv4 address, or the /64 of an IPv6 address; UNKNOWN for anything else."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return UNKNOWN
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:  # how a socket for both kinds names an IPv4 address
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
