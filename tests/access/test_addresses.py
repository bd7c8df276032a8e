"""Which addresses are one visitor's."""

from __future__ import annotations

import pytest

from access.addresses import network_of


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", "unknown"),
        ("10.0.0.300", "unknown"),
    ],
)
def test_an_ipv6_address_counts_as_its_network(address: str, counted: str) -> None:
    assert network_of(address) == counted
