"""Servers that somebody else runs, one for each trap named on the command line, under its name. Prints their port."""

from __future__ import annotations

import asyncio
import sys

from aiohttp import web

from tests.validity_for_real.server import application

#: Those that speculate.
DRAFTING = ("drafting", "wakes_late", "remembers", "drops_words", "samples", "samples_few", "learns", "silent")


async def main(traps: list[str]) -> None:
    root = web.Application()
    for trap in traps:
        root.add_subapp(f"/{trap}", application(trap, drafts=trap in DRAFTING))
    runner = web.AppRunner(root, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
