"""compose.yaml, checked as far as it goes without a container engine."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from cli.app import VERBS
from tests.cli.homes import REPOSITORY
from warehouse.settings import ENVIRONMENT_PREFIX, Settings
from webapp.access.hosts import refuse_open_page

COMPOSE: dict[str, Any] = yaml.safe_load((REPOSITORY / "compose.yaml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = sorted(name for name, service in SERVICES.items() if "build" in service)


def test_it_has_all_services() -> None:
    assert set(SERVICES) == {"valkey", "postgres", "migrate", "ingester", "worker", "web"}


@pytest.mark.parametrize("name", OURS)
def test_its_command_is_a_verb_of_ours(name: str) -> None:
    (verb,) = SERVICES[name]["command"]
    assert verb in VERBS


@pytest.mark.parametrize("name", OURS)
def test_its_variables_are_settings_of_ours(name: str) -> None:
    variables = {ENVIRONMENT_PREFIX + field.upper() for field in Settings.model_fields}
    assert set(SERVICES[name]["environment"]) <= variables


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"migrate"}))
def test_a_service_that_stays_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_its_image_is_pinned_to_a_full_version(name: str) -> None:
    assert re.search(r":v?\d+\.\d+(\.\d+)?(-\w+)?$", SERVICES[name]["image"])


def test_the_images_it_builds_start_from_pinned_versions() -> None:
    bases = re.findall(r"^FROM (\S+) AS", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    assert bases
    assert all(re.search(r":v?\d+\.\d+\.\d+", base) for base in bases)


def test_only_the_page_is_published_and_on_loopback() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"web": ["127.0.0.1:8501:8501"]}


def test_every_dependency_is_a_service_with_the_awaited_state() -> None:
    for service in SERVICES.values():
        for name, awaited in service.get("depends_on", {}).items():
            if awaited["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[name]


def test_no_password_stands_in_the_file() -> None:
    text = (REPOSITORY / "compose.yaml").read_text()
    given = re.findall(r"PASSWORD: \"?([^\s,}]+)", text) + re.findall(r"//\w*:([^@]+)@", text)
    assert len(given) == 3
    assert all(value.startswith("${") for value in given)


def test_the_page_asks_who_comes_and_answers_to_this_machines_names_alone() -> None:
    given = SERVICES["web"]["environment"]
    names = given["DRAFTHOUSE_WEB_PUBLIC_HOSTS"].removeprefix("${WEB_PUBLIC_HOSTS:-").removesuffix("}")
    login = given["DRAFTHOUSE_WEB_LOGIN"]
    refuse_open_page(Settings(web_host=given["DRAFTHOUSE_WEB_HOST"], web_login=login, web_public_hosts=names))
    assert (login, names) == ("accounts", "localhost,127.0.0.1")
