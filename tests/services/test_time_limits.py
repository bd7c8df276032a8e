"""Nothing waits for ever for a page of another process: every client of HTTP is given a limit where it is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.workers.homes import REPOSITORY

ROOMS = ("lab", "warehouse", "jobs", "workers", "webapp", "services", "cli", "models")
#: What asks over HTTP, or holds the limit of what asks, by the end of its dotted name.
CLIENTS = (
    *(
        "ClientSession",
        "urlopen",
        "_opener.open",
        "client.HTTPConnection",
        "client.HTTPSConnection",
        "create_connection",
    ),
    *("httpx.get", "httpx.post", "httpx.request", "httpx.Client", "httpx.stream", "httpx.AsyncClient"),
    *("model_info", "Redis.from_url"),
)
LIMITS = {"timeout", "socket_timeout"}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def files() -> Iterator[Path]:
    yield REPOSITORY / "drafthouse.py"
    for room in ROOMS:
        yield from sorted((REPOSITORY / room).rglob("*.py"))


def is_client(name: str) -> bool:
    return any(name == client or name.endswith(f".{client}") for client in CLIENTS)


def has_no_limit(name: str, call: ast.Call) -> bool:
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    if name.endswith("ClientTimeout"):
        return ast.unparse(given.get("total", ast.Constant(None))) == "None"
    if is_client(name):
        limits = [ast.unparse(value) for name, value in given.items() if name in LIMITS]
        return not limits or "None" in limits
    return False


def test_every_client_of_http_has_a_limit_of_time() -> None:
    found, without = 0, []
    for path in files():
        for name, call in calls(path):
            found += is_client(name)
            if has_no_limit(name, call):
                without.append(f"{path.relative_to(REPOSITORY)}:{call.lineno} {name}")
    assert without == []
    assert found >= 8  # the names above are those that are used
