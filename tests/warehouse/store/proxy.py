"""A proxy before the object store, with faults. Program: `python -m tests.warehouse.store.proxy PORT FOLDER ADDRESS`.

It listens on the address, and prints its port. The file FOLDER/mode says what happens to each request from then on:
`ok`, a status such as `503`, `cut` (half of the request arrives), `lost` (it is done, and its answer is not seen),
`held` (what follows the first 2 MB waits for another mode), `late` (half a second before each answer), `unconditional`
(If-None-Match is ignored), or `mixed` (one of the faults, or none). FOLDER/requests gets a line of moment, method, path
and size for each piece that is passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import sys
import time
from pathlib import Path

_PIECE_BYTES = 50_000
_HELD_BYTES, _LATE_S = 2_000_000, 0.5
_MIXED = ("ok", "ok", "ok", "500", "503", "cut", "lost")
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


class Proxy:
    def __init__(self, port: int, folder: Path, address: str) -> None:
        self._address = address
        self._port, self._mode, self._seen = port, folder / "mode", folder / "requests"
        self._random = random.Random(7)  # noqa: S311 - the same faults in every run

    async def serve(self) -> None:
        async with await asyncio.start_server(self._handle, self._address, 0) as server:
            print(server.sockets[0].getsockname()[1], flush=True)
            await server.serve_forever()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._one(reader, writer):
                pass
        writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Treat one request; return whether the connection goes on."""
        head = await reader.readuntil(b"\r\n\r\n")
        mode = self._mode.read_text()
        mode = self._random.choice(_MIXED) if mode == "mixed" else mode
        if mode == "unconditional":
            head = re.sub(rb"if-none-match: .*\r\n", b"", head, flags=re.IGNORECASE)
        found = _LENGTH.search(head)
        size, name = int(found[1]) if found else 0, b" ".join(head.split(b" ", 2)[:2]).decode()
        refuses = mode.isdigit()
        there, to = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            to.write(b"" if refuses else re.sub(rb"\r\n\r\n$", b"\r\nConnection: close\r\n\r\n", head))
            size = size // 2 if mode == "cut" else size
            for begin in range(0, size, _PIECE_BYTES):
                while mode == "held" == self._mode.read_text() and begin >= _HELD_BYTES:  # noqa: ASYNC110 - a file
                    await asyncio.sleep(0.05)
                piece = await reader.readexactly(min(_PIECE_BYTES, size - begin))
                if not refuses:
                    to.write(piece)
                    self._note(name, len(piece))
            if refuses:
                writer.write(f"HTTP/1.1 {mode} Away\r\nContent-Length: 0\r\n\r\n".encode())
                return True
            if mode == "cut":
                return False
            self._note(name, 0)
            answer = await there.read()
            await asyncio.sleep(_LATE_S if mode == "late" else 0.0)
            if mode != "lost":
                writer.write(answer)
                await writer.drain()
        finally:
            to.close()
        return False

    def _note(self, name: str, size: int) -> None:
        with self._seen.open("a") as file:
            file.write(f"{time.monotonic()} {name} {size}\n")


if __name__ == "__main__":
    asyncio.run(Proxy(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]).serve())
