"""Settings come from the environment and drafthouse.toml; wrong ones are refused with a sentence."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from sqlalchemy import make_url

from host.settings import Settings, load_settings, setting_names
from lab.errors import SettingsError


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without a drafthouse.toml, an environment without our variables."""
    monkeypatch.chdir(tmp_path)
    for name in setting_names():
        monkeypatch.delenv(f"DRAFTHOUSE_{name.upper()}", raising=False)


def test_all_state_lies_under_the_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRAFTHOUSE_HOME", str(tmp_path / "other"))
    settings = load_settings()
    places = (settings.master_file, settings.warehouse_file, settings.bundles, settings.models_dir, settings.logs_dir)
    assert all(place.is_relative_to(tmp_path / "other") for place in (*places, settings.broker_file))
    assert str(tmp_path / "other") in settings.app_database_url


def test_the_object_store_of_bundles_leaves_their_folder_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().bundles_url is None
    Path("drafthouse.toml").write_text('bundles = "gs://bucket"')
    assert load_settings().bundles_url == "gs://bucket"
    monkeypatch.setenv("DRAFTHOUSE_BUNDLES", "s3://bucket/a/prefix")
    settings = load_settings()
    assert (settings.bundles_url, settings.bundles) == ("s3://bucket/a/prefix", Path("var/bundles"))


def test_the_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("drafthouse.toml").write_text('web_port = 1234\nhome = "there"\n')
    monkeypatch.setenv("DRAFTHOUSE_WEB_PORT", "4321")
    assert (load_settings().web_port, load_settings().home) == (4321, Path("there"))


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("DRAFTHOUSE_WEB_PORT", "web", "DRAFTHOUSE_WEB_PORT (or web_port in drafthouse.toml)"),
        ("DRAFTHOUSE_WEB_PORT", "99999", "less than or equal to 65535"),
        ("DRAFTHOUSE_LEASE_S", "0", "greater than or equal to 2"),
        ("DRAFTHOUSE_HOEM", "x", "DRAFTHOUSE_HOEM: no such setting"),
        ("DRAFTHOUSE_BUNDLES", "s4://bucket", "(or bundles in drafthouse.toml): should be s3://bucket/prefix, gs://"),
        ("DRAFTHOUSE_BUNDLES", "file://folder", "or file:///folder, got 'file://folder'"),
        ("DRAFTHOUSE_HOME", "", "should not be empty: leave it out for the default, got ''"),
        ("DRAFTHOUSE_DATASETS_DIR", "", "should not be empty"),
        ("DRAFTHOUSE_BROKER_URL", "", "should not be empty"),
        ("DRAFTHOUSE_BUNDLES_DIR", ".", "should name a folder of its own"),
        ("DRAFTHOUSE_SQL_TIMEOUT_S", "inf", "less than or equal to 604800"),
        ("DRAFTHOUSE_REQUEST_TIMEOUT_S", "inf", "less than or equal to 604800"),
        ("DRAFTHOUSE_ENGINE_START_TIMEOUT_S", "1e12", "less than or equal to 604800"),
    ],
)
def test_a_wrong_variable_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, sentence: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hoem = 1", "hoem in drafthouse.toml is not a setting"),
        ("web_port = ", "not valid TOML"),
        ("web_port = [1]", "web_port"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(text: str, sentence: str) -> None:
    Path("drafthouse.toml").write_text(text)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("url", "file"),
    [
        (None, Path("/home-of-the-test/app.sqlite")),
        ("sqlite:////data/app.sqlite", Path("/data/app.sqlite")),
        ("sqlite+pysqlite:///app.sqlite?timeout=5", Path("app.sqlite")),
        ("sqlite://", None),
        ("postgresql+psycopg://someone:secret@host/database", None),
    ],
)
def test_the_app_database_is_a_file_only_if_it_is_embedded(url: str | None, file: Path | None) -> None:
    settings = Settings(home=Path("/home-of-the-test"), database_url=url)
    assert settings.app_database_file == file


@pytest.mark.parametrize("password", ["plain", "a@b/c:d#e%f?g", "ü ß"])
def test_a_password_comes_from_a_file_whatever_is_in_it(tmp_path: Path, password: str) -> None:
    file = tmp_path / "password"
    file.write_text(f"{password}\n")
    settings = Settings(
        database_url="postgresql+psycopg://drafthouse@postgres:5432/drafthouse",
        database_password_file=file,
        broker_url="redis://valkey:6379/0",
        broker_password_file=file,
    )
    url = make_url(settings.app_database_url)
    assert (url.username, url.password, url.host, url.port) == ("drafthouse", password, "postgres", 5432)
    broker = urlsplit(settings.own_broker_url or "")
    assert (unquote(broker.password or ""), broker.hostname, broker.port, broker.path) == (
        password,
        "valkey",
        6379,
        "/0",
    )
    assert Settings().own_broker_url is None


def test_a_password_that_is_missing_or_given_twice_is_said(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        _ = Settings(database_url="postgresql://x@y/z", database_password_file=tmp_path / "none").app_database_url
    (tmp_path / "one").write_text("x")
    with pytest.raises(SettingsError, match="leave one of both out"):
        _ = Settings(broker_url="redis://:a@y", broker_password_file=tmp_path / "one").own_broker_url


def test_the_pages_address_is_one_that_a_browser_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    for host, shown in {"127.0.0.1": "127.0.0.1", "::1": "[::1]", "::": "127.0.0.1", "lab": "lab"}.items():
        monkeypatch.setenv("DRAFTHOUSE_WEB_HOST", host)
        assert load_settings().page_url == f"http://{shown}:8501"
