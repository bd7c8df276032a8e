"""The key of an engine, new at each start: passed in its environment, which other users of the host cannot read, and
with each of our requests; never recorded.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from host.files import write_whole
from jobs.engines.profiles import KEY
from workers.load.client import Endpoint, open_session

FILE = Path(__file__).parents[1] / "engine_key" / "sitecustomize.py"
#: It is asked once: an answer that came too late would pass for one that needs the key.
_PAGE_TIMEOUT = aiohttp.ClientTimeout(total=30)


def new_key() -> str:
    return secrets.token_hex(16)


def key_folder(home: Path) -> Path:
    """Return the folder that Python searches first. It is under the home, where a container and the engines' user can
    read it.
    """
    return home.absolute() / "engines" / "key"


def with_key(home: Path, key: str, own: Mapping[str, str]) -> dict[str, str]:
    """Return the engine's `own` variables plus those for its key. Copies the file that checks the key."""
    copy = key_folder(home) / FILE.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    content = FILE.read_text(encoding="utf-8")
    if not copy.exists() or copy.read_text(encoding="utf-8") != content:
        write_whole(copy, content)
    paths = [str(copy.parent), *([own["PYTHONPATH"]] if own.get("PYTHONPATH") else [])]
    return {KEY: key, "PYTHONPATH": os.pathsep.join(paths)}


async def answers_anybody(endpoint: Endpoint) -> bool:
    """Return whether the engine answers a request without its key."""
    try:
        async with (
            open_session() as session,
            session.get(f"{endpoint.base_url}/v1/models", timeout=_PAGE_TIMEOUT, allow_redirects=False) as answer,
        ):
            return answer.status not in (401, 403)
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False
