"""`web_login = "token"`: the address that `drafthouse up` prints opens the lab, and nothing else does."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from access.web import start_token
from host.settings import Settings
from lab.errors import UserError
from tests.access.web.labs import Lab, lab_served


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab_served(tmp_path_factory.mktemp("token"), {"DRAFTHOUSE_WEB_LOGIN": "token"}) as it:
        yield it


def token(lab: Lab) -> str:
    return start_token.read(lab.settings.start_token_file)


def test_without_the_token_everything_leads_to_the_login_even_on_this_machine(lab: Lab) -> None:
    assert lab.ask("/home")[1]["location"] == "/login?next=%2Fhome"
    assert lab.websocket() == 401
    assert "Open the lab" in lab.ask("/login")[2]
    for wrong in ("", "x", token(lab)[:-1]):
        assert lab.ask(f"/home?token={wrong}")[1]["location"] == "/login?next=%2Fhome"
        assert lab.ask("/login", "POST", data={"token": wrong})[0] == 401


def test_the_printed_address_opens_the_lab_and_its_token_does_not_stay(lab: Lab) -> None:
    printed = start_token.address(Settings(home=lab.settings.home, web_login="token"))
    path = f"/results?{urlsplit(printed).query}&job=a+b"
    status, headers, _ = lab.ask(path)
    assert (status, headers["location"]) == (303, "/results?job=a+b")
    assert token(lab) not in headers["set-cookie"]
    cookie = headers["set-cookie"].partition(";")[0]
    assert lab.ask("/home", headers={"Cookie": cookie})[0] == 200
    assert lab.websocket(Cookie=cookie) == 101


def test_the_token_can_be_typed(lab: Lab) -> None:
    status, headers, _ = lab.ask("/login", "POST", data={"token": f" {token(lab)} ", "next": "/jobs"})
    assert (status, headers["location"]) == (303, "/jobs")
    cookie = headers["set-cookie"].partition(";")[0]
    assert lab.websocket(Cookie=cookie) == 101
    out = lab.ask("/logout", "POST", headers={"Cookie": cookie})
    assert (out[0], "Max-Age=0" in out[1]["set-cookie"]) == (303, True)


def test_an_address_of_elsewhere_is_no_way_on(lab: Lab) -> None:
    assert lab.ask(f"//evil.example/?token={token(lab)}")[1]["location"] == "/"


def test_each_start_has_a_token_of_its_own_for_its_owner_alone(tmp_path: Path) -> None:
    file = tmp_path / "web-token"
    first, second = start_token.renew(file), start_token.renew(file)
    assert first != second == start_token.read(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [file]
    file.chmod(0o640)
    with pytest.raises(UserError, match="can be read by others: remove it and start the page again"):
        start_token.read(file)
    file.unlink()
    with pytest.raises(UserError, match="is gone: start the page again"):
        start_token.read(file)


def test_without_its_file_every_way_in_says_what_to_do(lab: Lab, tmp_path: Path) -> None:
    opened = lab.ask(f"/?token={token(lab)}")[1]["set-cookie"].partition(";")[0]
    away = lab.settings.start_token_file.rename(tmp_path / "away")
    try:
        ways = [
            lab.ask("/home", headers={"Cookie": opened}),
            lab.ask("/home?token=x"),
            lab.ask("/login", "POST", data={"token": "x"}),
            lab.ask("/api/v1/me", headers={"Authorization": "Bearer x"}),
            lab.ask("/logout", headers={"Cookie": opened}),
            lab.ask("/login"),
        ]
        assert [status for status, _, _ in ways] == [503, 503, 503, 503, 200, 200]
        assert all("token cannot be read" in body for status, _, body in ways if status == 503)
        assert all(str(lab.settings.home) not in body for _, _, body in ways)
        assert lab.websocket(Cookie=opened) == 503
    finally:
        away.rename(lab.settings.start_token_file)
    assert lab.ask("/home", headers={"Cookie": opened})[0] == 200


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfe"])
def test_a_file_without_a_token_opens_nothing(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "web-token"
    file.touch(mode=0o600)
    file.write_bytes(content)
    with pytest.raises(UserError, match="remove it and start the page again"):
        start_token.read(file)
