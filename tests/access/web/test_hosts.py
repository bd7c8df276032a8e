"""Which names the page answers to, which origins it trusts, and which settings are too open to start with."""

from __future__ import annotations

from typing import Any

import pytest

from access.web.hosts import hosts_of, refuse_open_page
from host.settings import Settings
from lab.errors import SettingsError

HERE = Settings()
PROXIED = Settings(web_public_hosts="lab.example.org, gpu01:8443", web_https=True)
ANY = "0.0.0.0"  # noqa: S104 - compared with, never bound
EVERYWHERE = Settings(web_host=ANY, web_login="accounts", web_public_hosts="localhost,127.0.0.1")


@pytest.mark.parametrize(
    ("settings", "host", "answered"),
    [
        (HERE, "127.0.0.1:8501", True),
        (HERE, "localhost:9000", True),
        (HERE, "LOCALHOST.:8501", True),
        (HERE, "[::1]:8501", True),
        (HERE, "evil.example:8501", False),
        (HERE, "localhost.evil.example", False),
        (HERE, "localhost@evil.example", False),
        (HERE, "localhost:8501/x", False),
        (HERE, "localhost:port", False),
        (HERE, "", False),
        (HERE, None, False),
        (PROXIED, "lab.example.org", True),
        (PROXIED, "Lab.Example.Org:443", True),
        (PROXIED, "127.0.0.1:8501", True),
        (PROXIED, "gpu01", True),
        (PROXIED, "www.lab.example.org", False),
        (EVERYWHERE, "localhost:8501", True),
        (EVERYWHERE, "0.0.0.0:8501", False),
        (EVERYWHERE, "evil.example:8501", False),
    ],
)
def test_only_the_pages_own_names_are_answered(settings: Settings, host: str | None, *, answered: bool) -> None:
    assert hosts_of(settings).answers(host) is answered


@pytest.mark.parametrize(
    ("settings", "origin", "host", "trusted"),
    [
        (HERE, "http://localhost:8501", "localhost:8501", True),
        (HERE, "http://LOCALHOST:8501", "localhost:8501", True),
        (HERE, "http://localhost:3000", "localhost:8501", False),
        (HERE, "http://127.0.0.1:8501", "localhost:8501", False),
        (HERE, "https://evil.example", "localhost:8501", False),
        (HERE, "null", "localhost:8501", False),
        (HERE, "", "", False),
        (HERE, None, "localhost:8501", False),
        (PROXIED, "https://lab.example.org", "127.0.0.1:8501", True),
        (PROXIED, "https://lab.example.org", "lab.example.org", True),
        (PROXIED, "https://lab.example.org:444", "127.0.0.1:8501", False),
        (PROXIED, "https://gpu01:8443", "127.0.0.1:8501", True),
        (EVERYWHERE, "http://localhost:3000", "localhost:8501", False),
    ],
)
def test_only_pages_of_its_own_are_trusted(settings: Settings, origin: str | None, host: str, *, trusted: bool) -> None:
    assert hosts_of(settings).trusts(origin, host) is trusted


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"web_host": "localhost"},
        {"web_host": "::1"},
        {"web_host": "127.8.8.8"},
        {"web_host": "10.1.2.3", "web_login": "accounts"},
        {"web_host": ANY, "web_login": "token", "web_public_hosts": "lab.example.org:8443"},
    ],
)
def test_a_page_that_is_closed_to_strangers_may_start(settings: dict[str, Any]) -> None:
    refuse_open_page(Settings(**settings))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"web_host": ANY}, r"would listen on 0\.0\.0\.0 without a login.*set DRAFTHOUSE_WEB_LOGIN=accounts"),
        ({"web_host": "::", "web_public_hosts": "lab"}, "would listen on :: without a login"),
        ({"web_host": "gpu01"}, "would listen on gpu01 without a login"),
        ({"web_host": "10.1.2.3"}, "drafthouse user add NAME --role administrator"),
        ({"web_host": ANY, "web_login": "accounts"}, "cannot know its own name: set DRAFTHOUSE_WEB_PUBLIC_HOSTS"),
        ({"web_public_hosts": "https://lab.example.org"}, "has 'https://lab.example.org': use names such as"),
        ({"web_public_hosts": "lab.example.org,*"}, r"has '\*'"),
    ],
)
def test_a_page_that_is_too_open_does_not_start(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        refuse_open_page(Settings(**settings))


def test_links_begin_with_the_address_that_browsers_use() -> None:
    assert HERE.public_url == "http://127.0.0.1:8501"
    assert PROXIED.public_url == "https://lab.example.org"
    assert EVERYWHERE.public_url == "http://localhost:8501"
    assert Settings(web_public_hosts="lab:9000").public_url == "http://lab:9000"
