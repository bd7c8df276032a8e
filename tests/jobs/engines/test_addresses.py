"""Which addresses a server named by a user may have."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.engines.addresses import RefusedAddress, check_address, check_host
from lab.errors import UserError
from workers.load.client import Endpoint, open_session


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.0.1",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "168.63.129.16",
        "64:ff9b:1::a9fe:a9fe",
        "100.100.100.200",
        "192.0.0.192",
        "0.0.0.0",  # noqa: S104 - nothing is bound to it
        "::",
        "224.0.0.1",
        "ff02::1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::1",
    ],
)
def test_where_credentials_may_be_is_refused_however_it_is_written(address: str) -> None:
    with pytest.raises(RefusedAddress, match="allow_metadata_addresses"):
        check_address("server", address)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.0.0.7", "192.168.1.2", "172.16.0.1", "fd12::1", "8.8.8.8"])
def test_loopback_private_and_public_addresses_are_fine(address: str) -> None:
    check_address("server", address)


@given(st.ip_addresses(v=4, network="169.254.0.0/16"))
def test_all_of_the_link_local_range_is_refused_also_inside_ipv6(address: Any) -> None:
    for text in (str(address), f"::ffff:{address}"):
        with pytest.raises(RefusedAddress):
            check_address("server", text)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "http://2852039166",  # the same as one number
        "http://0xa9fea9fe:8000",
        "http://[::ffff:169.254.169.254]:80",
        "http://metadata.google.internal",
        "http://METADATA.google.internal.",
    ],
)
def test_a_url_of_a_metadata_service_is_refused(url: str) -> None:
    with pytest.raises(RefusedAddress):
        check_host(url)


def test_a_host_without_an_address_is_named() -> None:
    with pytest.raises(UserError, match=r"the host 'nowhere\.invalid' has no address"):
        check_host("http://nowhere.invalid:8000")


async def test_a_name_that_means_another_address_by_then_is_not_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: fine when it was submitted, the metadata service when it is connected to."""
    answers = ["127.0.0.1", "169.254.169.254"]

    def resolve(*_: object, **__: object) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers.pop(0), 80))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    check_host("http://changing.example")
    async with open_session(Endpoint("http://changing.example", "m", foreign=True, checked=True)) as session:
        with pytest.raises(aiohttp.ClientConnectorError, match=r"169\.254\.169\.254.*link-local"):
            await session.get("http://changing.example/")
    assert answers == []  # it was resolved once, and what was resolved was looked at


async def test_what_was_looked_at_is_what_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    resolved = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: resolved)
    async with (
        server,
        open_session(Endpoint("http://fine.example", "m", checked=True)) as session,
        session.get(f"http://fine.example:{port}/") as response,
    ):
        assert await response.text() == "ok"
