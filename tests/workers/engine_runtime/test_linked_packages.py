"""The engine `transformers` of a host whose own Python has torch and transformers."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lab.errors import UserError
from tests.workers.homes import REPOSITORY
from workers.engine_runtime.linked_packages import HostPython, host_python, install_transformers, link_ours

IMPORTS = """
import json, aiohttp, jinja2, pydantic, torch, transformers
print(json.dumps([torch.whose, transformers.whose, jinja2.whose, aiohttp.__version__, pydantic.VERSION]))
"""


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder of programs as PATH names it, whose Python has torch, transformers and a jinja2 of its own."""
    uv = str(Path(sys.executable).with_name("uv"))
    subprocess.run((uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "host")), check=True)
    (packages,) = (tmp_path / "host").glob("lib/python3*/site-packages")
    for name in ("torch", "transformers", "jinja2"):
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text("whose = 'host'\n")
    (packages / "transformers-9.8.7.dist-info").mkdir()
    return tmp_path / "host" / "bin"


def test_a_host_with_transformers_gets_the_engine_without_a_download(host: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "python3").write_text("no program")
    python = host_python({"PATH": f"{tmp_path / 'empty'}:{host}"})
    assert python is not None
    assert (python.program, set(python.has)) == (host / "python3", {"torch", "transformers", "jinja2"})

    (tmp_path / "engines.toml").write_text((REPOSITORY / "engines.toml").read_text())
    for _ in range(2):  # again, it is made anew
        said = install_transformers(tmp_path / "engines", tmp_path / "engines.toml", python)
    assert str(host / "python3") in said
    (word,) = tomllib.loads((tmp_path / "engines.toml").read_text())["transformers"]["command"]
    program = word.format(engines=tmp_path / "engines")
    done = subprocess.run((program, "-I", "-c", IMPORTS), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)[:3] == ["host"] * 3
    assert list((tmp_path / "engines").glob("transformers/lib/*/*/transformers-9.8.7.dist-info"))
    assert not list((tmp_path / "engines").glob("transformers/lib/*/*/pandas"))


def test_a_host_without_transformers_has_none(tmp_path: Path, host: Path) -> None:
    (packages,) = host.parent.glob("lib/python3*/site-packages")
    (packages / "torch" / "__init__.py").rename(packages / "torch" / "other.py")
    (packages / "torch").rename(packages / "something")
    assert host_python({"PATH": f"{host}:{tmp_path / 'absent'}"}) is None


def test_what_another_python_lacks_is_named_with_the_command(tmp_path: Path) -> None:
    other = HostPython(Path("/opt/conda/bin/python3"), ("torch", "transformers", "pydantic"), (3, 99), ())
    with pytest.raises(UserError, match="run `/opt/conda/bin/python3 -m pip install aiohttp jinja2`"):
        install_transformers(tmp_path, tmp_path / "engines.toml", other)
    assert not list(tmp_path.iterdir())


def test_packages_are_linked_alone_or_with_what_they_need(tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    (tmp_path / "whole").mkdir()
    link_ours(["pandas"], tmp_path / "alone", with_needed=False)
    link_ours(["pandas"], tmp_path / "whole", with_needed=True)
    assert {path.name for path in (tmp_path / "alone").iterdir() if "dist-info" not in path.name} == {"pandas"}
    assert {"pandas", "numpy", "dateutil", "six.py"} <= {path.name for path in (tmp_path / "whole").iterdir()}
