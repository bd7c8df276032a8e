"""Studies by their names, and the engine that they are to be measured on."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.named_study import named_study
from lab.errors import UserError
from tests.cli.homes import new_home


def test_a_preset_is_submitted_to_its_version_by_one_option_or_its_install_named(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    assert home.ask("migrate").returncode == 0
    refused = home.ask("submit", "friday-night", "--engine", "vllm-0-12-0")
    assert refused.returncode == 2
    assert "there is no engine 'vllm-0-12-0' here" in refused.stderr
    assert "`drafthouse install vllm 0.12.0` installs it" in refused.stderr


def test_only_the_arms_of_vllm_change_their_engine() -> None:
    arms = {arm.name: arm.engine for arm in named_study("engines", engine="vllm-0-14-1").arms}
    before = {arm.name: arm.engine for arm in named_study("engines").arms}
    assert {arms[name] for name, engine in before.items() if engine == "vllm"} == {"vllm-0-14-1"}
    assert {name: arms[name] for name, engine in before.items() if engine != "vllm"} == {
        name: engine for name, engine in before.items() if engine != "vllm"
    }
    with pytest.raises(UserError, match="no arm of 'assisted-generation' has the engine vllm"):
        named_study("assisted-generation", engine="vllm-0-14-1")
