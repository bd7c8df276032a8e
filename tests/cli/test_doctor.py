"""What `drafthouse doctor` finds, and what it says to do."""

from __future__ import annotations

from pathlib import Path

from services.doctor import Finding, examine
from warehouse.settings import Settings


def findings(settings: Settings) -> dict[str, Finding]:
    return {finding.what: finding for finding in examine(settings)}


def test_an_empty_machine_is_told_what_to_do_about_each_thing(tmp_path: Path) -> None:
    engines = tmp_path / "engines.toml"
    engines.write_text('[vllm]\nkind = "vllm"\ncommand = ["{engines}/vllm/bin/vllm", "serve"]\n')
    found = findings(Settings(home=tmp_path / "home", engines_dir=tmp_path / "none", engines_file=engines))
    missing = {what: finding.remedy for what, finding in found.items() if not finding.ok}
    assert missing.keys() >= {"home", "app database", "warehouse", "engine vllm", "broker", "services"}
    assert missing["home"] == "drafthouse migrate"
    assert "make engine-vllm" in missing["engine vllm"]
    assert all(missing.values())


def test_every_engine_of_engines_toml_is_looked_at(tmp_path: Path) -> None:
    engines = tmp_path / "engines.toml"
    engines.write_text('[mine]\nkind = "sglang"\ncommand = ["/nowhere/python"]\n[broken]\nkind = "sglang"\n')
    (found,) = [f for f in findings(Settings(home=tmp_path, engines_file=engines)).values() if "engine" in f.what]
    assert not found.ok
    assert "broken" in found.found
    engines.write_text('[mine]\nkind = "sglang"\ncommand = ["/nowhere/python"]\n')
    mine = findings(Settings(home=tmp_path, engines_file=engines))["engine mine"]
    assert not mine.ok
    assert "/nowhere/python" in mine.found
