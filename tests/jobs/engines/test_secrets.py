"""Secrets of the worker's host."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import SettingsError
from warehouse.settings import Settings, load_settings, secret

KEY = "sk-very-secret"


def home_with(folder: Path, text: str, mode: int = 0o600) -> Settings:
    file = folder / "secrets.toml"
    file.write_text(text)
    file.chmod(mode)
    return Settings(home=folder)


def test_a_secret_comes_from_the_environment_or_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = home_with(tmp_path, f'production = "{KEY}"')
    assert secret(settings.home, "production") == KEY
    monkeypatch.setenv("DRAFTHOUSE_SECRET_PRODUCTION", "other")
    assert secret(settings.home, "production") == "other"


def test_a_secret_in_the_environment_is_no_unknown_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAFTHOUSE_SECRET_PRODUCTION", KEY)
    assert KEY not in repr(load_settings())


def test_a_file_that_others_can_read_is_refused_with_the_command_that_mends_it(tmp_path: Path) -> None:
    settings = home_with(tmp_path, f'production = "{KEY}"', mode=0o644)
    with pytest.raises(SettingsError, match="chmod 600") as refused:
        secret(settings.home, "production")
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("text", [f"production = {KEY}", f'production = "{KEY} {KEY}"', f'production = "{KEY}\\n"'])
def test_a_secret_that_cannot_be_used_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        secret(home_with(tmp_path, text).home, "production")
    assert KEY not in str(refused.value)


def test_a_secret_that_is_not_there_is_answered_with_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="set DRAFTHOUSE_SECRET_PRODUCTION, or production in") as refused:
        secret(Settings(home=tmp_path).home, "production")
    assert str(tmp_path / "secrets.toml") in str(refused.value)
