"""Connects to checked addresses alone. Apart from the checks, which submission makes without aiohttp."""

from __future__ import annotations

import asyncio
import socket

from aiohttp.abc import AbstractResolver, ResolveResult

from jobs.engines.addresses import check_address, check_name


class CheckedResolver(AbstractResolver):
    """Resolves a name once and returns only checked addresses, so that what was checked is what is connected to."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        check_name(host)
        loop = asyncio.get_running_loop()
        resolved = await loop.getaddrinfo(host, port, family=family, type=socket.SOCK_STREAM)
        for *_, address in resolved:
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
            for kind, _, protocol, _, address in resolved
        ]

    async def close(self) -> None:
        """There is nothing to close."""
