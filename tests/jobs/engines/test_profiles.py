"""engines.toml, the environment an engine is given, and the secrets of the worker's host."""

from __future__ import annotations

from pathlib import Path

import pytest

from host.settings import Settings, load_settings, secret
from jobs.engines.hardware import nvidia_gpus, processors
from jobs.engines.profiles import (
    Profile,
    command_argv,
    fill_in,
    installed_profile,
    profile_environment,
    read_profiles,
    whole_environment,
    without_secrets,
)
from lab.errors import SettingsError, UserError
from tests.lab.studies import study
from tests.workers.homes import REPOSITORY

KEY = "sk-very-secret"


def settings(folder: Path, engines: str | None) -> Settings:
    if engines is not None:
        (folder / "engines.toml").write_text(engines)
    return Settings(home=folder, engines_file=folder / "engines.toml", engines_dir=folder / "engines")


def test_the_shipped_engines_file_has_vllm_and_can_be_filled_in() -> None:
    ours = Settings(engines_file=REPOSITORY / "engines.toml")
    profile = read_profiles(ours.engines_file)["vllm"]
    for text in (*profile.command, *profile.environment.values(), *profile.cpu_environment.values()):
        assert "{" not in fill_in(ours, text)


def test_on_a_cpu_the_engine_gets_every_processor_but_the_first(tmp_path: Path) -> None:
    mine = processors()
    expected = mine[1:] or mine
    assert fill_in(settings(tmp_path, ""), "{engine_threads}:{engine_cores}") == (
        f"{len(expected)}:{','.join(map(str, expected))}"
    )


@pytest.mark.parametrize(
    ("engines", "words"),
    [
        (None, "does not exist"),
        ("[vllm", "cannot be read"),
        ("vllm = 1", "vllm: Input should be"),
        ('[vllm]\nkind = "vllm"\ncommand = []', "vllm.command"),
        ('[vllm]\nkind = "magic"\ncommand = ["x"]', "vllm.kind"),
        ('[vllm]\nkind = "vllm"\ncommand = ["x"]\ncolour = "red"', "vllm.colour"),
    ],
)
def test_an_unusable_engines_file_is_named_with_the_faulty_key(tmp_path: Path, engines: str | None, words: str) -> None:
    with pytest.raises(SettingsError, match=words) as refused:
        read_profiles(settings(tmp_path, engines).engines_file)
    assert str(tmp_path / "engines.toml") in str(refused.value)


def test_an_engine_without_environment_is_answered_with_the_command_that_makes_it(tmp_path: Path) -> None:
    here = settings(tmp_path, '[vllm]\nkind = "vllm"\ncommand = ["{engines}/vllm/bin/vllm", "serve"]')
    with pytest.raises(UserError, match="drafthouse install"):
        installed_profile(here, "vllm")


def test_a_containers_command_hands_on_all_variables_mark_and_key(tmp_path: Path) -> None:
    profile = Profile(kind="vllm", command=("docker", "run", "{pass_environment}", "-v", "{home}:{home}", "image"))
    words = command_argv(settings(tmp_path, ""), profile, {"B": "2", "A": "1"})
    assert words == (
        *("docker", "run", "-e", "A", "-e", "B", "-e", "ENGINE_OF_DRAFTHOUSE", "-e", "ENGINE_KEY_OF_DRAFTHOUSE"),
        *("-v", f"{tmp_path}:{tmp_path}", "image"),
    )


def test_an_arm_sets_variables_over_its_profile_and_secrets_are_not_told(tmp_path: Path) -> None:
    profile = Profile(kind="vllm", command=("sh",), environment={"A": "1", "HF_TOKEN": "hf_secret"})
    built = study(arms=[{"name": "a", "baseline": True, "environment": {"A": "2"}}])
    own = profile_environment(settings(tmp_path, ""), profile, built, built.arms[0])
    assert (own["A"], own["HF_TOKEN"]) == ("2", "hf_secret")
    assert without_secrets(own) == own | {"HF_TOKEN": "(not stored)"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HTTPS_PROXY", "http://ann:s3cret@proxy:3128"),
        ("DATABASE_URL", "postgresql+psycopg://ann:p@ss@db/lab"),
        ("SSL_KEY_PASS", "s3cret"),
    ],
)
def test_a_password_is_not_stored_whatever_its_variable_is_called(name: str, value: str) -> None:
    assert without_secrets({name: value}) == {name: "(not stored)"}
    assert without_secrets({"HTTPS_PROXY": "http://proxy:3128"}) == {"HTTPS_PROXY": "http://proxy:3128"}


def test_an_unknown_placeholder_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="colour"):
        fill_in(settings(tmp_path, ""), "{colour}")


def test_our_own_settings_and_python_do_not_reach_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTHOUSE_DATABASE_URL", "postgresql://user:secret@host/db")
    monkeypatch.setenv("PYTHONPATH", "/ours")
    monkeypatch.setenv("VLLM_KEPT", "yes")
    for name in ("AWS_SECRET_ACCESS_KEY", "SSH_AUTH_SOCK", "GITHUB_TOKEN", "CELERY_BROKER_URL"):
        monkeypatch.setenv(name, "a key to something else")
    profile = Profile(kind="vllm", command=("sh",), environment={"OWN": "1"}, cpu_environment={"CPU": "1"})
    here, reference = settings(tmp_path, ""), study()
    own = profile_environment(here, profile, reference, reference.arms[1])
    assert own == {"OWN": "1", "HF_HUB_OFFLINE": "1"} | ({} if nvidia_gpus() else {"CPU": "1"})
    whole = whole_environment(here.engines_dir, profile, own)
    assert whole["VLLM_KEPT"] == "yes"
    assert whole["OWN"] == "1"
    assert not {"DRAFTHOUSE_DATABASE_URL", "PYTHONPATH"} & set(whole)
    assert "a key to something else" not in whole.values()


def test_a_model_from_a_hub_leaves_the_engine_online(tmp_path: Path) -> None:
    profile = Profile(kind="vllm", command=("sh",))
    hub = study(target="owner/model")
    assert "HF_HUB_OFFLINE" not in profile_environment(settings(tmp_path, ""), profile, hub, hub.arms[0])


def home_with(folder: Path, text: str, mode: int = 0o600) -> Settings:
    file = folder / "secrets.toml"
    file.write_text(text)
    file.chmod(mode)
    return Settings(home=folder)


URL = "https://llm.example.org"
BOUND = f'[production]\nkey = "{KEY}"\nbase_url = "{URL}"\n'


def test_a_secret_comes_from_the_environment_or_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = home_with(tmp_path, BOUND)
    assert secret(settings.home, "production", f"{URL}:443/some/path") == KEY
    monkeypatch.setenv("DRAFTHOUSE_SECRET_PRODUCTION", "other")
    monkeypatch.setenv("DRAFTHOUSE_SECRET_PRODUCTION_URL", URL)
    assert secret(settings.home, "production", URL) == "other"


@pytest.mark.parametrize(
    "url",
    ["http://llm.example.org", "https://llm.example.org:8443", "https://llm.example.org.mine.example", "https://x"],
)
def test_a_secret_is_sent_to_its_own_server_alone(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError, match="the secret 'production' is for another server than http") as refused:
        secret(home_with(tmp_path, BOUND).home, "production", url)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("text", [f'production = "{KEY}"', f'[production]\nkey = "{KEY}"'])
def test_a_secret_without_a_server_is_sent_to_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"has no server yet: set .*base_url of .production. in") as refused:
        secret(home_with(tmp_path, text).home, "production", URL)
    assert KEY not in str(refused.value)


def test_a_secret_of_the_environment_without_a_server_is_sent_to_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTHOUSE_SECRET_PRODUCTION", KEY)
    with pytest.raises(SettingsError, match="has no server yet: set DRAFTHOUSE_SECRET_PRODUCTION_URL to"):
        secret(home_with(tmp_path, BOUND).home, "production", URL)


def test_a_secret_in_the_environment_is_no_unknown_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAFTHOUSE_SECRET_PRODUCTION", KEY)
    assert KEY not in repr(load_settings())


def test_a_file_others_can_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    settings = home_with(tmp_path, BOUND, mode=0o644)
    with pytest.raises(SettingsError, match="chmod 600") as refused:
        secret(settings.home, "production", URL)
    assert KEY not in str(refused.value)


@pytest.mark.parametrize(
    "text", [f"production = {KEY}", BOUND.replace(KEY, f"{KEY} {KEY}"), BOUND.replace(KEY, f"{KEY}\\n")]
)
def test_a_secret_that_cannot_be_used_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as refused:
        secret(home_with(tmp_path, text).home, "production", URL)
    assert KEY not in str(refused.value)


def test_a_missing_secret_is_answered_with_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError, match="set DRAFTHOUSE_SECRET_PRODUCTION and DRAFTHOUSE_SECRET_PRODUCTION_URL, or key and"
    ) as refused:
        secret(Settings(home=tmp_path).home, "production", URL)
    assert str(tmp_path / "secrets.toml") in str(refused.value)
