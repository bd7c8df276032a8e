"""The server as a process of its own, to be killed: prints its address, then serves until its end."""

from __future__ import annotations

import asyncio
import sys

from tests.workers.load.behaviours import BEHAVIOURS
from tests.workers.load.openai_server import serve


async def _main() -> None:
    async with serve(BEHAVIOURS) as server:
        sys.stdout.write(server.base_url + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
