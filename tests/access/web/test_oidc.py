"""Signing in at a real OpenID provider process, and answers that a provider of a liar would give."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from access import accounts, sessions
from access.web import oidc
from host.ports import free_port
from host.settings import Settings
from lab.errors import AccessError, SettingsError
from lab.roles import Actor, Role
from tests.access.web.labs import Lab
from tests.actors import ADMIN
from tests.answering import EMPTY, answering
from tests.client.serving import serving
from tests.webapp.homes import make_home
from tests.workers.homes import until
from warehouse.app_db import audit
from warehouse.app_db.engine import open_engine

ALICE = {"sub": "alice", "email": "Alice@lab.example", "email_verified": True}
MALLORY = {"sub": "mallory", "email": "alice@lab.example", "email_verified": False}
STRANGER = {"sub": "stranger", "email": "stranger@else.example", "email_verified": True}
CLIENT, NONCE = "drafthouse", "a nonce"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """A provider that knows three people."""
    port = free_port()
    people = [part for person in (ALICE, MALLORY, STRANGER) for part in ("--user-claims", json.dumps(person))]
    command = (sys.executable, "-W", "ignore", "-m", "oidc_provider_mock", "-p", str(port), *people)
    url = f"http://127.0.0.1:{port}"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            until(lambda: answers(url) or process.poll() is not None, "it answers")
            assert process.poll() is None
            yield url
        finally:
            process.terminate()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a provider may answer late."""
    monkeypatch.setattr(oidc, "_TIMEOUT_S", 600.0)


def answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/jwks", timeout=600):  # noqa: S310 - ours
        return True
    return False


@pytest.fixture(scope="module")
def settings(issuer: str, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    secret = tmp_path_factory.mktemp("client") / "secret"
    secret.touch(mode=0o600)
    secret.write_text("a secret\n")
    return Settings(
        web_login="oidc", web_oidc_issuer=issuer, web_oidc_client_id=CLIENT, web_oidc_client_secret_file=secret
    )


@contextlib.contextmanager
def lab_of(folder: Path, provider: Settings) -> Iterator[Lab]:
    """A lab whose users sign in there, in this process and without pages."""
    names = ("web_login", "web_oidc_issuer", "web_oidc_client_id", "web_oidc_client_secret_file")
    own = {name: getattr(provider, name) for name in names} | {"web_port": free_port()}
    settings = make_home(folder).model_copy(update=own)
    with open_engine(settings.app_database_url) as database, serving(settings, settings.web_port) as url:
        yield Lab(settings, url, database)


@pytest.fixture(scope="module")
def lab(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """That knows alice as a submitter, and nobody else."""
    with lab_of(tmp_path_factory.mktemp("oidc"), settings) as it:
        accounts.add_user(it.database, "alice@lab.example", Role.SUBMITTER, actor=ADMIN)
        yield it


def back_from_provider(lab: Lab, person: str) -> tuple[str, str]:
    """The path to which the provider sends the browser of this person, and the browser's cookie of the attempt."""
    status, headers, _ = lab.ask("/login/oidc?next=%2Fjobs")
    assert status == 303
    at_provider = urllib.request.Request(headers["location"], f"sub={person}".encode())  # noqa: S310 - ours
    opener = urllib.request.build_opener(_StayHere)
    with opener.open(at_provider) as answer:
        location = urlsplit(answer.headers["Location"])
    assert location.netloc == lab.host
    return f"{location.path}?{location.query}", headers["set-cookie"].partition(";")[0]


class _StayHere(urllib.request.HTTPRedirectHandler):
    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> Any:
        del req, code, msg, headers
        return fp


def test_a_user_signs_in_at_the_provider_and_comes_back(lab: Lab) -> None:
    assert lab.ask("/jobs")[1]["location"] == "/login?next=%2Fjobs"
    login = lab.ask("/login?next=%2Fjobs")[2]
    assert re.search(r'href="/login/oidc\?next=%2Fjobs">Continue at 127\.0\.0\.1:\d+<', login)
    path, attempt = back_from_provider(lab, "alice")
    status, headers, body = lab.ask(path, headers={"Cookie": attempt})
    assert (status, headers.get("location")) == (303, "/jobs"), body
    cookies = {}
    for line in headers["all-cookies"].splitlines():
        name, _, value = line.partition(";")[0].partition("=")
        cookies[name] = value
    session = next(value for name, value in cookies.items() if not name.endswith("-oidc"))
    assert sessions.actor_of(lab.database, session) == Actor("alice@lab.example", Role.SUBMITTER)
    again = lab.ask(path, headers={"Cookie": attempt})
    assert again[0] == 403


@pytest.mark.parametrize(
    ("person", "words"),
    [
        ("stranger", "This lab has no user stranger@else.example"),
        ("mallory", "the provider has not verified that alice@lab.example is your address"),
    ],
)
def test_who_is_no_user_or_only_says_so_is_refused(lab: Lab, person: str, words: str) -> None:
    path, attempt = back_from_provider(lab, person)
    status, headers, body = lab.ask(path, headers={"Cookie": attempt})
    assert (status, words in body) == (403, True)
    assert "Max-Age=0" in headers["set-cookie"]


def test_an_answer_to_another_browsers_question_is_refused(lab: Lab) -> None:
    path, _ = back_from_provider(lab, "alice")
    _, other = back_from_provider(lab, "alice")
    for cookie, words in (
        (other, "the answer belongs to another attempt"),
        ("x=y", "started in another browser"),
        (f"{other.partition('=')[0]}=bm9uc2Vuc2U=", "started in another browser"),
    ):
        status, _, body = lab.ask(path, headers={"Cookie": cookie})
        assert (status, words in body) == (403, True)
    denied = f"/login/oidc/back?error=access_denied&state={parse_qs(urlsplit(path).query)['state'][0]}"
    assert lab.ask(denied, headers={"Cookie": other})[0] == 403


def test_only_what_the_provider_has_signed_for_this_attempt_is_believed(settings: Settings) -> None:
    provider = oidc.Provider(settings)
    now = int(time.time())
    claims = {"iss": settings.web_oidc_issuer, "aud": CLIENT, "nonce": NONCE, "sub": "alice", "exp": now + 3600}
    theirs, shared = RSAKey.generate_key(2048), OctKey.import_key("a secret that the client knows as well")
    forged = [
        jwt.encode({"alg": "RS256"}, claims, theirs),
        jwt.encode({"alg": "HS256"}, claims, shared),
        "",
        "a.b.c",
    ]
    for token in forged:
        with pytest.raises(AccessError, match="its answer is not valid"):
            provider._verified(token, NONCE)
    provider._described()
    provider._keys = {"keys": [theirs.as_dict(private=False)]}
    assert provider._verified(jwt.encode({"alg": "RS256"}, claims, theirs), NONCE)["sub"] == "alice"
    for wrong in ({"iss": "https://else"}, {"aud": "else"}, {"nonce": "else"}, {"exp": now - 600}, {"sub": None}):
        provider._described()
        provider._keys = {"keys": [theirs.as_dict(private=False)]}
        changed = {name: value for name, value in (claims | wrong).items() if value is not None}
        with pytest.raises(AccessError, match="its answer is not valid"):
            provider._verified(jwt.encode({"alg": "RS256"}, changed, theirs), NONCE)


@pytest.mark.parametrize(
    ("changes", "is_ours"),
    [
        ({}, True),
        ({"azp": CLIENT}, True),
        ({"azp": CLIENT, "aud": [CLIENT, "else"]}, True),
        ({"azp": "else"}, False),
        ({"azp": "else", "aud": [CLIENT, "else"]}, False),
        ({"aud": [CLIENT, "else"]}, False),
    ],
)
def test_a_token_that_was_made_for_another_client_is_refused(
    settings: Settings, changes: dict[str, Any], *, is_ours: bool
) -> None:
    provider, key = oidc.Provider(settings), RSAKey.generate_key(2048)
    provider._described()
    provider._keys = {"keys": [key.as_dict(private=False)]}
    claims = {"iss": settings.web_oidc_issuer, "aud": CLIENT, "nonce": NONCE, "sub": "alice", "exp": time.time() + 3600}
    token = jwt.encode({"alg": "RS256"}, claims | changes, key)
    if is_ours:
        assert provider._verified(token, NONCE)["sub"] == "alice"
    else:
        with pytest.raises(AccessError, match="its answer is meant for another client"):
            provider._verified(token, NONCE)


def described(settings: Settings, url: str) -> oidc.Provider:
    """A provider whose endpoints are below this address."""
    provider = oidc.Provider(settings)
    provider._description = oidc.Description(
        issuer=settings.web_oidc_issuer,
        authorization_endpoint=f"{url}/authorize",
        token_endpoint=f"{url}/token",
        jwks_uri=f"{url}/jwks",
        userinfo_endpoint=f"{url}/userinfo",
    )
    provider._read_s = time.monotonic()
    return provider


def test_the_clients_secret_does_not_follow_a_redirect_to_another_server(settings: Settings) -> None:
    with (
        answering(lambda _path: EMPTY) as (elsewhere, stolen),
        answering(lambda _path: (302, {"Location": f"{elsewhere}/stolen"}, ())) as (url, asked),
        pytest.raises(AccessError, match=f"redirects from {url.removeprefix('http://')} to 127.0.0.1"),
    ):
        described(settings, url)._exchanged({"code": "x"})
    assert (asked, stolen) == (["/token"], [])


def test_a_provider_that_is_away_is_said_in_a_sentence(settings: Settings) -> None:
    away = settings.model_copy(update={"web_oidc_issuer": "http://127.0.0.1:1"})
    with pytest.raises(AccessError, match="the provider does not answer"):
        oidc.Provider(away).address(oidc.Attempt(then="/"))


def test_who_waits_for_a_silent_provider_keeps_nobody_else_waiting(settings: Settings, tmp_path: Path) -> None:
    async def others_are_answered(url: str, silent: socket.socket) -> bool:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as session:

            async def ask(path: str) -> int:
                async with session.get(f"{url}{path}", allow_redirects=False) as answer:
                    return answer.status

            waiting = {asyncio.create_task(ask("/login/oidc")) for _ in range(60)}
            await asyncio.wait(waiting, timeout=0.5)  # so that they have begun
            status = await ask("/readyz")
            still = [task for task in waiting if not task.done()]
            silent.close()
            await asyncio.wait(waiting)
            return status == 200 and len(still) > 50

    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with lab_of(tmp_path, settings.model_copy(update={"web_oidc_issuer": address})) as lab:
            assert asyncio.run(others_are_answered(lab.url, silent))


def test_a_role_claim_decides_where_there_is_one() -> None:
    by_claim = Settings(web_oidc_role_claim="groups")
    assert oidc.role_in(Settings(), {"groups": ["administrator"]}) is None
    assert oidc.role_in(by_claim, {"groups": ["staff", "viewer", "submitter"]}) is Role.SUBMITTER
    assert oidc.role_in(by_claim, {"groups": "administrator"}) is Role.ADMINISTRATOR


@pytest.mark.parametrize("claims", [{}, {"groups": 7}, {"groups": []}, {"groups": ["staff"]}])
def test_nobody_keeps_a_role_that_the_provider_took(claims: dict[str, Any]) -> None:
    open_to_all = Settings(web_oidc_role_claim="groups", web_oidc_new_users="viewer")
    assert oidc.role_in(open_to_all, claims) is Role.VIEWER
    with pytest.raises(AccessError, match="the provider gives you no role in this lab: its claim groups names none"):
        oidc.role_in(Settings(web_oidc_role_claim="groups"), claims)


def test_a_role_that_only_the_userinfo_endpoint_names_is_found(settings: Settings) -> None:
    key, attempt = RSAKey.generate_key(2048), oidc.Attempt(then="/")
    claims = {"iss": settings.web_oidc_issuer, "aud": CLIENT, "nonce": attempt.nonce, "exp": time.time() + 600} | ALICE
    token = jwt.encode({"alg": "RS256"}, claims, key)
    answers = {"/token": {"id_token": token, "access_token": "x"}, "/userinfo": {"sub": "alice", "groups": "submitter"}}
    with provider_that_says(answers) as (url, _):
        provider = described(settings.model_copy(update={"web_oidc_role_claim": "groups"}), url)
        provider._keys = {"keys": [key.as_dict(private=False)]}
        found = provider.claims(attempt, {"state": attempt.state, "code": "x"})
    assert (found["email"], found["groups"]) == (ALICE["email"], "submitter")


def test_who_is_vouched_for_becomes_a_user_where_that_is_allowed(lab: Lab) -> None:
    database = lab.database
    with pytest.raises(AccessError, match=r"run `drafthouse user add new@lab\.example`"):
        accounts.welcome(database, "new@lab.example", None, None)
    accounts.welcome(database, "new@lab.example", None, Role.VIEWER)
    accounts.welcome(database, "new@lab.example", None, Role.SUBMITTER)
    assert {user.name: user.role for user in accounts.all_users(database)}["new@lab.example"] is Role.VIEWER
    accounts.welcome(database, "new@lab.example", Role.ADMINISTRATOR, None)
    assert audit.newest(database, 1)[0].detail == {"role": "administrator", "was": "viewer", "by": "login"}
    accounts.disable(database, "new@lab.example", actor=ADMIN)
    with pytest.raises(AccessError, match=r"new@lab\.example may no longer sign in to this lab"):
        accounts.welcome(database, "new@lab.example", Role.SUBMITTER, Role.VIEWER)
    with pytest.raises(AccessError, match="wrong"):
        sessions.begin(database, "new@lab.example", "here")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"web_oidc_issuer": "", "web_oidc_client_id": ""}, "WEB_OIDC_ISSUER and DRAFTHOUSE_WEB_OIDC_CLIENT_ID"),
        ({"web_oidc_issuer": "http://login.example"}, "it must begin with https://"),
        ({"web_oidc_client_secret_file": None}, "needs DRAFTHOUSE_WEB_OIDC_CLIENT_SECRET_FILE"),
        ({"web_oidc_client_secret_file": Path("/nowhere")}, "write the client's secret into it"),
    ],
)
def test_a_provider_that_cannot_be_asked_is_refused_at_the_start(
    settings: Settings, changes: dict[str, Any], words: str
) -> None:
    oidc.refuse_incomplete(settings)
    with pytest.raises(SettingsError, match=words):
        oidc.refuse_incomplete(settings.model_copy(update=changes))


def test_a_secret_that_others_can_read_is_refused(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("x")
    file.chmod(0o644)
    with pytest.raises(SettingsError, match="run `chmod 600"):
        oidc.refuse_incomplete(settings.model_copy(update={"web_oidc_client_secret_file": file}))


@pytest.mark.parametrize("body", [b"[" * 100_000, b"{", b"\xff"])
def test_an_answer_that_nobody_understands_is_said_in_a_sentence(body: bytes) -> None:
    with pytest.raises(AccessError, match="the provider does not answer"):
        ask_one_that_says([body])


def test_a_provider_that_answers_drop_by_drop_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oidc, "_TIMEOUT_S", 1.0)

    def drops() -> Iterator[bytes]:
        for _ in range(100_000):
            time.sleep(0.1)
            yield b" "

    with pytest.raises(AccessError, match="the provider does not answer"):
        ask_one_that_says(drops())


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"token_endpoint": None}, "token_endpoint"),
        ({"jwks_uri": 7}, "jwks_uri"),
        ({"token_endpoint_auth_methods_supported": "basic"}, "token_endpoint_auth_methods_supported"),
    ],
)
def test_a_description_that_lacks_something_is_said_in_a_sentence(
    settings: Settings, changes: dict[str, Any], field: str
) -> None:
    answers: dict[str, object] = {}
    with provider_that_says(answers) as (url, _):
        own = settings.model_copy(update={"web_oidc_issuer": url})
        whole = {"issuer": url, "authorization_endpoint": url, "token_endpoint": url, "jwks_uri": f"{url}/jwks"}
        answers |= {"/.well-known/openid-configuration": whole, "/jwks": {"keys": []}}
        assert oidc.Provider(own).address(oidc.Attempt(then="/")).startswith(f"{url}?response_type=code")
        answers["/.well-known/openid-configuration"] = whole | changes
        with pytest.raises(AccessError, match=f"description of itself has no usable {field}"):
            oidc.Provider(own).address(oidc.Attempt(then="/"))


@pytest.mark.parametrize("keys", [{}, {"keys": None}, {"keys": [{"kty": "EC", "crv": "P-9", "x": "a", "y": "b"}]}])
def test_keys_that_nobody_understands_are_said_in_a_sentence(settings: Settings, keys: dict[str, Any]) -> None:
    provider = described(settings, "not an address")
    provider._keys = keys
    with pytest.raises(AccessError, match="its answer is not valid"):
        provider._verified("a.b.c", NONCE)
    with pytest.raises(AccessError, match="the provider does not answer"):
        described(settings, "not an address")._exchanged({"code": "x"})


def provider_that_says(answers: Mapping[str, object]) -> AbstractContextManager[tuple[str, list[str]]]:
    """A server that answers with these objects, by their paths."""
    return answering(lambda path: (200, {}, [json.dumps(answers[path]).encode()]))


def ask_one_that_says(pieces: Iterable[bytes]) -> None:
    """Ask a provider that sends these pieces and hangs up."""
    with answering(lambda _path: (200, {}, pieces)) as (url, _):
        oidc._ask(f"{url}/")
