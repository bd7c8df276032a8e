"""A real page server with a login, and what programs ask it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import sqlalchemy as sa

from access import accounts
from host.settings import Settings
from lab.roles import Role
from tests.actors import ADMIN
from tests.webapp.homes import environment, make_home
from tests.webapp.served import served
from warehouse.app_db.engine import open_engine

PASSWORD = "correct horse battery"


@dataclass(frozen=True)
class Lab:
    settings: Settings
    url: str
    database: sa.Engine

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def ask(self, path: str, method: str = "GET", **options: object) -> tuple[int, dict[str, str], str]:
        """Status, headers by their names in lower case, and body; redirects are not followed.

        `all-cookies` has a line for each cookie that is set.
        """
        return asyncio.run(_ask(f"{self.url}{path}", method, options))

    def websocket(self, **headers: str) -> int:
        """The status with which the websocket of the pages answers; 101 if it is open."""
        return asyncio.run(_open(f"{self.url}/_stcore/stream", {"Origin": self.url} | headers))

    def link(self, name: str, role: Role) -> str:
        accounts.add_user(self.database, name, role, actor=ADMIN)
        return f"/login/link/{accounts.new_link(self.database, name, actor=ADMIN)}"

    def signed_in(self, name: str, role: Role = Role.VIEWER) -> str:
        """A new user's cookie."""
        fields = {"password": PASSWORD, "again": PASSWORD}
        status, headers, _ = self.ask(self.link(name, role), "POST", data=fields)
        assert (status, headers["location"]) == (303, "/")
        return headers["set-cookie"].partition(";")[0]


async def _ask(url: str, method: str, options: dict[str, object]) -> tuple[int, dict[str, str], str]:
    async with (
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
        session.request(method, url, allow_redirects=False, **options) as answer,  # type: ignore[arg-type]
    ):
        headers = {name.lower(): value for name, value in answer.headers.items()}
        headers["all-cookies"] = "\n".join(answer.headers.getall("Set-Cookie", []))
        return answer.status, headers, await answer.text(errors="replace")


async def _open(url: str, headers: dict[str, str]) -> int:
    async with aiohttp.ClientSession() as session:
        try:
            async with session.ws_connect(url, headers=headers, protocols=("streamlit",)):
                return 101
        except aiohttp.WSServerHandshakeError as refusal:
            return refusal.status


@contextmanager
def lab_served(folder: Path, variables: Mapping[str, str]) -> Iterator[Lab]:
    """With a home in this folder, and these settings."""
    settings = make_home(folder)
    with open_engine(settings.app_database_url) as database, served(environment(settings) | dict(variables)) as url:
        yield Lab(settings, url, database)
