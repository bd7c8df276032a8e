"""`drafthouse acceptance`, as a person or a program types it."""

from __future__ import annotations

import json

import pytest
import yaml

from lab.comparison.acceptance import RULE
from tests.cli.homes import Home


def test_people_read_rates_positions_estimates_kinds_of_text_latency_and_the_rule(studied: Home) -> None:
    answer = studied.ask("acceptance", "small")
    assert answer.returncode == 0, answer.stderr
    lines = answer.stdout.splitlines()
    (line,) = (line for line in lines if line.startswith("mixed.jsonl/all/64  c4       drafted  ") and "k=1" in line)
    for shown in ("31.3 %", "1.94", "0.56 0.28 0.09", "0.56 0.50 0.33", "k=1: 1.56, k=2: 1.85", "server's counters"):
        assert shown in line
    assert any(line.split()[2:6] == ["drafted", "code", "52.0", "%"] for line in lines)
    assert any("-0.99 (" in line for line in lines)
    assert "drafted on mixed.jsonl/all/64, c4: too little history, 3 runs until 2026-11-21, the last 1.939" in lines
    assert lines[-1] == RULE


def test_programs_read_the_same(studied: Home) -> None:
    printed = json.loads(studied.ask("acceptance", "small", "--json").stdout)
    assert len(printed["arms"]) == len(printed["drift"]["histories"]) == 8
    arm = printed["arms"][0]
    assert arm["length"] == pytest.approx(1 + sum(arm["per_position"]))
    assert [estimate["is_estimate"] for estimate in arm["with_fewer_tokens"]] == [True, True]
    assert set(arm["by_category"]) == {"code", "prose"}
    assert arm["against_latency"]["tpot_ms"]["rho"]["value"] < -0.9
    assert printed["drift"]["rule"] == RULE
    assert [run["state"] for run in printed["drift"]["histories"][0]["runs"]] == ["too little history"] * 3


def test_the_matrix_takes_the_arms_of_several_studies(studied: Home) -> None:
    alone = json.loads(studied.ask("acceptance", "small", "--matrix", "--json").stdout)
    assert {(cell["target"], cell["category"]) for cell in alone} == {("reference", "code"), ("reference", "prose")}
    assert all(cell["length"]["low"] < cell["length"]["value"] < cell["length"]["high"] for cell in alone)
    both = json.loads(studied.ask("acceptance", "small", "--matrix", "--beside", "small", "--json").stdout)
    assert both == [*alone, *alone]
    lines = studied.ask("acceptance", "small", "--matrix").stdout.splitlines()
    assert lines[0].split()[:5] == ["target", "arm", "k", "category", "length"]
    assert len(lines) == 1 + len(alone)
    refusal = studied.refusal("acceptance", "small", "--beside", "small")
    assert "--beside adds a study to the table of --matrix" in refusal
    assert "--golden and --matrix: they exclude" in studied.refusal("acceptance", "small", "--matrix", "--golden")
    assert "--golden and --json: they exclude" in studied.refusal("acceptance", "small", "--golden", "--json")
    missing = studied.ask("acceptance", "small", "--matrix", "--beside", "nothing")
    assert "no results of 'nothing'" in missing.stderr


def test_lengths_are_written_as_a_golden_file(studied: Home) -> None:
    printed = studied.ask("acceptance", "small", "--golden").stdout
    assert "# AL = 1 + accepted draft tokens / verification rounds" in printed
    files = [yaml.safe_load(f"#{part}") for part in printed.split("# Measured by Drafthouse")[1:]]
    assert [list(file) for file in files] == [["reference"]] * len(files)
    assert all(1 < file["reference"]["thinking_off"][3] <= 4 for file in files)
