"""Part hostile: how long a page takes for its visitors while others try to stop the lab.

`python -m webapp` serves a filled home with accounts. Visitors sign in, open a page, read for some seconds and go on to
the next; others, signed in as viewers, do one of `ATTACKS` each, again and again without a pause. The baseline is the
same visitors without attackers. Nothing may be lost: every page of every visitor is delivered, the same process answers
at the end, and the job table is intact.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import random
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp
import sqlalchemy as sa

from access import accounts, sessions, tokens
from benchmarks.processes import own_home
from benchmarks.reading.filling import Size, fill
from benchmarks.reading.pages import serving
from benchmarks.reading.visitors import new_session, open_page, visitor
from benchmarks.table import Row, show
from host.settings import ENVIRONMENT_PREFIX, Settings
from lab.errors import EngineError
from lab.roles import Actor, Role
from warehouse.app_db.engine import open_engine
from warehouse.app_db.schema import jobs

AIM_S = 2.0
_PATIENCE_S = 600.0
VISITORS, HOSTILE, LASTS_S, READS_S = 40, 10, 60.0, (3.0, 12.0)
PAGES = ("home", "results", "jobs", "explore", "compare", "cost")
_NUMBERS = itertools.count()
_BENCH = Actor("benchmark", Role.ADMINISTRATOR, "command")
#: A study of some hundred bytes with far more runs than any lab has.
_HUGE = (
    'name = "huge"\ntarget = "reference"\nrepeats = 100\n'
    + "".join(f'[[arms]]\nname = "a{number}"\n' for number in range(60))
    + "".join(f'[[workloads]]\ndataset = "reference"\noutput_tokens = {number + 1}\n' for number in range(60))
    + "".join(f"[[loads]]\nmax_concurrency = {number + 1}\nnum_prompts = 100\n" for number in range(60))
)
_SQL = {
    "a bit and an object": "select list_transform(range(5000), lambda x: {'a': true, 'b': false}) from range(9000)",
    "a cross join": "select count(*) from range(1000000) a, range(1000000) b where a.range + b.range = 7",
    "a wide answer": "select repeat('x', 100000) from range(100000)",
}


@dataclass(frozen=True)
class Attacker:
    """A signed-in viewer who does one thing."""

    session: aiohttp.ClientSession
    url: str
    cookie: str
    token: str

    async def api(self, path: str, body: Mapping[str, object]) -> None:
        bearer = {"Authorization": f"Bearer {self.token}"}
        async with self.session.post(f"{self.url}/api/v1{path}", json=body, headers=bearer) as answer:
            await answer.read()


async def _try_passwords(attacker: Attacker) -> None:
    form = {"name": f"visitor{next(_NUMBERS) % VISITORS}", "password": "x" * 200}
    async with attacker.session.post(f"{attacker.url}/login", data=form) as answer:
        await answer.read()


async def _try_links(attacker: Attacker) -> None:
    headers = {"Cookie": f"x={'y' * 4000}"}
    async with attacker.session.get(f"{attacker.url}/shared/{next(_NUMBERS)}", headers=headers) as answer:
        await answer.read()


async def _reload(attacker: Attacker) -> None:
    async with visitor(attacker.session, attacker.url, attacker.cookie) as websocket:
        for page in PAGES:
            await open_page(websocket, page)


async def _leave_many_open(attacker: Attacker) -> None:
    """Open websockets that request a page and close before it arrives."""
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(10):
            opened = visitor(attacker.session, attacker.url, attacker.cookie)
            await stack.enter_async_context(opened)
        await asyncio.sleep(0.2)


async def _upload_to_nobody(attacker: Attacker) -> None:
    address = f"{attacker.url}/_stcore/upload_file/none/none"
    headers = {"Cookie": attacker.cookie, "Origin": attacker.url}
    async with attacker.session.put(address, data=_zeros(), headers=headers) as answer:
        await answer.read()


async def _zeros() -> AsyncIterator[bytes]:
    for _ in range(100):
        yield bytes(1_000_000)


async def _never_finish(attacker: Attacker) -> None:
    """Send requests whose headers never end."""
    host, _, port = attacker.url.removeprefix("http://").partition(":")
    writers: list[asyncio.StreamWriter] = []
    try:
        for _ in range(50):
            writers.append((await asyncio.open_connection(host, int(port)))[1])
            writers[-1].write(b"GET /home HTTP/1.1\r\nHost: ")
        await asyncio.sleep(2)
    finally:
        for writer in writers:
            writer.close()


ATTACKS: dict[str, Callable[[Attacker], Awaitable[None]]] = {
    **{name: functools.partial(Attacker.api, path="/sql", body={"sql": sql}) for name, sql in _SQL.items()},
    "a study of millions of runs": functools.partial(Attacker.api, path="/studies/plan", body={"toml": _HUGE}),
    "passwords": _try_passwords,
    "links": _try_links,
    "reloads": _reload,
    "websockets": _leave_many_open,
    "uploads": _upload_to_nobody,
    "unfinished requests": _never_finish,
}


@dataclass
class Seen:
    """The visitors' observations: the seconds of each page, and errors."""

    seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    attacks: int = 0


def run(settings: Settings, _repeats: int, size: Size | None = None) -> None:
    """Fill a warehouse in a home of its own, serve it, visit it without and with hostile visitors, and print."""
    with own_home(settings) as own:
        fill(own, size or Size())
        alone, beside = measure(own, VISITORS, HOSTILE, LASTS_S)
    names: dict[str, Callable[[Sequence[float]], float]] = {
        "median page": statistics.median,
        "95th of 100": lambda values: statistics.quantiles(values, n=20)[-1],
    }
    rows = [Row(f"{name} s", [of(beside.seconds)], [of(alone.seconds)], f"{AIM_S:g} s") for name, of in names.items()]
    show(f"{VISITORS} visitors beside {HOSTILE} hostile ones", "without them", rows)
    print(f"{len(beside.seconds)} pages, {len(beside.errors)} errors, {beside.attacks} attacks")
    for error in sorted(set(beside.errors))[:5]:
        print(f"  {error}")


def measure(settings: Settings, visitors: int, hostile: int, lasts_s: float) -> tuple[Seen, Seen]:
    """Return the visitors' observations alone, and beside attackers. Raises EngineError if anything is lost."""
    home, login = f"{ENVIRONMENT_PREFIX}HOME", f"{ENVIRONMENT_PREFIX}WEB_LOGIN"
    variables = {home: str(settings.home.absolute()), login: "accounts"}
    with open_engine(settings.app_database_url) as database:
        people = [_cookie(database, f"visitor{number}") for number in range(visitors)]
        attackers = [
            (_cookie(database, name), tokens.add_token(database, name, "hostile", Role.VIEWER, actor=_BENCH)[1])
            for name in (f"hostile{number}" for number in range(hostile))
        ]
        with serving(("-m", "webapp"), variables, f"{ENVIRONMENT_PREFIX}WEB_PORT") as (url, server):
            before = _rows(database)
            alone = asyncio.run(_visited(url, people, [], lasts_s))
            beside = asyncio.run(_visited(url, people, attackers, lasts_s))
            if not server.is_running() or _rows(database) != before:
                raise EngineError("the page ended, or jobs were lost")
    return alone, beside


def _cookie(database: sa.Engine, name: str) -> str:
    accounts.add_user(database, name, Role.VIEWER, actor=_BENCH)
    return sessions.begin(database, name, "here")


def _rows(database: sa.Engine) -> list[str]:
    with database.connect() as connection:
        return list(connection.scalars(sa.select(jobs.c.job_id).order_by(jobs.c.job_id)))


async def _visited(url: str, people: Sequence[str], attackers: Sequence[tuple[str, str]], lasts_s: float) -> Seen:
    """Visit for this long; on a slow machine, until there were more attacks than attackers."""
    seen, until, give_up = Seen(), time.monotonic() + lasts_s, time.monotonic() + lasts_s + _PATIENCE_S
    port = url.rpartition(":")[2]
    async with new_session() as session, asyncio.TaskGroup() as group:
        named = [f"drafthouse-{port}={secret}" for secret in people]

        def goes_on() -> bool:
            few = bool(attackers) and seen.attacks <= len(attackers) and time.monotonic() < give_up
            return time.monotonic() < until or few

        visits = [group.create_task(_visit(session, url, cookie, goes_on, seen)) for cookie in named]
        attacks = []
        for (secret, token), attack in zip(attackers, itertools.cycle(ATTACKS.values()), strict=False):
            attacker = Attacker(session, url, f"drafthouse-{port}={secret}", token)
            attacks.append(group.create_task(_attack(attacker, attack, seen)))
        await asyncio.wait(visits)
        for task in attacks:
            task.cancel()
    return seen


async def _visit(
    session: aiohttp.ClientSession, url: str, cookie: str, goes_on: Callable[[], bool], seen: Seen
) -> None:
    """Visit pages, starting at a random time: fifty people do not arrive at once."""
    choose = random.Random(cookie)  # noqa: S311 - when a page is opened is no secret
    await asyncio.sleep(choose.uniform(0, READS_S[1] / 2))
    try:
        async with visitor(session, url, cookie) as websocket:
            while True:
                seen.seconds.append((await open_page(websocket, choose.choice(PAGES))).seconds)
                if not goes_on():
                    break
                await asyncio.sleep(choose.uniform(*READS_S))
    except (aiohttp.ClientError, EngineError, TimeoutError) as error:
        seen.errors.append(f"{type(error).__name__}: {error}")


async def _attack(attacker: Attacker, attack: Callable[[Attacker], Awaitable[None]], seen: Seen) -> None:
    while True:
        with contextlib.suppress(aiohttp.ClientError, EngineError, OSError, TimeoutError):
            await attack(attacker)
        seen.attacks += 1
        await asyncio.sleep(0)
