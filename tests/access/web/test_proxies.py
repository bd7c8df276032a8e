"""Whose word about a visitor's address counts, at a real page server that visitors and proxies ask from addresses."""

from __future__ import annotations

import contextlib
import http.client
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from access import sessions
from access.web.hosts import trusted_proxies
from host.settings import Settings
from lab.errors import SettingsError
from tests.access.web.labs import Lab, lab_served
from warehouse.app_db import audit

PROXY, BEHIND = "127.0.0.2", "127.0.0.3"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """With two proxies, neither of which has the address that uvicorn trusts by default."""
    variables = {"DRAFTHOUSE_WEB_LOGIN": "accounts", "DRAFTHOUSE_WEB_PROXIES": f"{PROXY}, {BEHIND}/32"}
    with lab_served(tmp_path_factory.mktemp("proxies"), variables) as it:
        yield it


def sign_in(lab: Lab, name: str, source: str, forwarded: str) -> str:
    """The page that answers a wrong password, sent from this address with this X-Forwarded-For."""
    connection = http.client.HTTPConnection(lab.host, timeout=600, source_address=(source, 0))
    with contextlib.closing(connection):
        headers = {"Content-Type": "application/x-www-form-urlencoded", "X-Forwarded-For": forwarded}
        connection.request("POST", "/login", urlencode({"name": name, "password": "wrong"}), headers)
        return connection.getresponse().read().decode().lower()


@pytest.mark.parametrize(
    ("source", "forwarded", "address"),
    [
        ("127.0.0.1", "203.0.113.1", "127.0.0.1"),
        ("127.0.0.4", "203.0.113.2", "127.0.0.4"),
        (PROXY, "203.0.113.3", "203.0.113.3"),
        (PROXY, f"198.51.100.4, 203.0.113.4, {BEHIND}", "203.0.113.4"),
        (PROXY, "2001:db8::5", "2001:db8::5"),
        (PROXY, "invented <b>", "unknown"),
    ],
)
def test_the_audit_table_names_only_addresses_that_somebody_trusted_saw(
    lab: Lab, source: str, forwarded: str, address: str
) -> None:
    name = f"nobody{abs(hash(forwarded))}"
    sign_in(lab, name, source, forwarded)
    (refused,) = (entry for entry in audit.newest(lab.database, 100) if entry.subject == name)
    assert refused.detail["address"] == address


def test_tries_are_counted_by_the_visitor_behind_a_proxy(lab: Lab) -> None:
    for _ in range(sessions.MOST_PAIR):
        sign_in(lab, "somebody", PROXY, "192.0.2.1")
    assert "too many wrong passwords" in sign_in(lab, "somebody", PROXY, "192.0.2.1")
    assert "the password is wrong" in sign_in(lab, "somebody", PROXY, "192.0.2.2")


def test_another_header_is_no_other_visitor_without_a_proxy(lab: Lab) -> None:
    for number in range(sessions.MOST_PAIR):
        sign_in(lab, "somebody", "127.0.0.5", f"192.0.2.{number}")
    assert "too many wrong passwords" in sign_in(lab, "somebody", "127.0.0.5", "192.0.2.99")


@pytest.mark.parametrize("wrong", ["*", "lab.example.org", "10.0.0.1/8", "127.0.0.1:80"])
def test_what_is_no_address_is_refused_at_the_start(wrong: str) -> None:
    with pytest.raises(SettingsError, match=r"DRAFTHOUSE_WEB_PROXIES has .*: use addresses or networks such as"):
        trusted_proxies(Settings(web_proxies=f"127.0.0.1, {wrong}"))


def test_without_the_setting_nobody_is_believed() -> None:
    assert trusted_proxies(Settings()) == ""
