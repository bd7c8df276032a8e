"""Where engines keep what they run again: folders of their own user, and nobody else's."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from host.settings import Settings
from jobs.engines.caches import cache_variables
from jobs.engines.capabilities import installed_version
from jobs.engines.profiles import Profile
from lab.errors import EngineError, SettingsError
from tests.lab.studies import study
from workers.engine_runtime.launch import start_engine

OTHER = os.geteuid() + 1


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "XDG_CACHE_HOME", "HF_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_caches_lie_in_a_folder_that_only_their_user_may_open(tmp_path: Path) -> None:
    variables = cache_variables(tmp_path)
    own = tmp_path / f"engine-cache-{os.geteuid()}"
    assert {name: path for name, path in variables.items() if name != "HF_HOME"} == {
        "XDG_CACHE_HOME": f"{own}/.cache",
        "FLASHINFER_WORKSPACE_BASE": str(own),
        "TVM_FFI_CACHE_DIR": f"{own}/.cache/tvm-ffi",
        "TORCHINDUCTOR_CACHE_DIR": f"{own}/.cache/torchinductor",
        "TRITON_CACHE_DIR": f"{own}/.cache/triton",
        "CUDA_CACHE_PATH": f"{own}/.cache/cuda",
    }
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    (own / "compiled").write_text("")
    own.chmod(0o777)
    assert cache_variables(tmp_path) == variables
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert (own / "compiled").exists(), "what was compiled stays for the next start"


@pytest.mark.parametrize(
    ("set_here", "models"),
    [
        ({}, "{home}/.cache/huggingface"),
        ({"XDG_CACHE_HOME": "/scratch/me"}, "/scratch/me/huggingface"),
        ({"HF_HOME": "/models/hub", "XDG_CACHE_HOME": "/scratch/me"}, None),
    ],
)
def test_models_of_a_hub_are_looked_for_where_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_here: dict[str, str], models: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name, value in set_here.items():
        monkeypatch.setenv(name, value)
    found = cache_variables(tmp_path / "home").get("HF_HOME")
    assert found == (None if models is None else models.format(home=tmp_path))  # None: the worker's own reaches it


def test_a_folder_of_somebody_else_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "engine-home").mkdir()
    (tmp_path / "engine-home" / "precompiled.h").write_text("")
    with pytest.raises(
        SettingsError, match=r"engine-home belongs to .*, and engines run as .*: what lies there would be"
    ):
        cache_variables(tmp_path, folder="engine-home", uid=OTHER, gid=OTHER)
    elsewhere, link = tmp_path / "elsewhere", tmp_path / f"engine-cache-{os.geteuid()}"
    elsewhere.mkdir()
    link.symlink_to(elsewhere)
    with pytest.raises(SettingsError, match="is not a usable folder for engines"):
        cache_variables(tmp_path)


def test_an_engine_gets_caches_and_a_temporary_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also below a home that is too deep for sockets: vLLM's have 36 letters."""
    monkeypatch.setenv("TMPDIR", "/tmp")
    home = tmp_path / ("deep" * 20) / "home"
    binds = (
        "import os, socket, stat\n"
        "t = os.environ['TMPDIR']\n"
        "socket.socket(socket.AF_UNIX).bind(t + '/' + 36 * 'x')\n"
        "assert os.getcwd() == t, 'a folder beside the worker could be taken for a model of the hub'\n"
        "print(t, oct(stat.S_IMODE(os.stat(t).st_mode)), os.environ['TORCHINDUCTOR_CACHE_DIR'])"
    )
    home.mkdir(parents=True)
    engines, script = home / "engines.toml", home / "binds.py"
    script.write_text(binds)
    engines.write_text(f'[vllm]\nkind = "vllm"\ncommand = ["python3", "{script}"]\n')
    settings, log, seen = Settings(home=home, engines_file=engines), home / "logs/job.log", []
    one = study(target=str(home))
    with pytest.raises(EngineError, match="the engine ended with exit status 0"):
        asyncio.run(start_engine(settings, one, one.arms[0], log, lambda _command, process: seen.append(process)))
    for process in seen:
        process.stop(0.0)
    temporary, mode, compiled = log.read_text().split()
    assert mode == "0o700"
    assert compiled == f"{home}/engine-cache-{os.geteuid()}/.cache/torchinductor"
    assert not Path(temporary).exists(), "it goes with its engine"
    assert list((home / "engines").glob("*.json")) == []


def test_whoever_is_asked_for_its_version_has_such_folders_too(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, engines_file=tmp_path / "engines.toml")
    says = f'echo "$(stat -c %a "$TMPDIR")|$TMPDIR|$TORCHINDUCTOR_CACHE_DIR" > {tmp_path}/said; echo 1.0'
    asked = Profile(kind="sglang", command=("sh",), version_command=("sh", "-c", says))
    assert installed_version(settings, asked) == "1.0"
    mode, temporary, compiled = (tmp_path / "said").read_text().strip().split("|")
    assert mode == "700"
    assert not Path(temporary).exists()
    assert compiled.startswith(str(tmp_path))
