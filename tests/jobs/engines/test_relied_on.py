"""What is used of an engine unasked: by its version, and not where it is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jobs.engines.capabilities import Capabilities
from jobs.engines.captures import captures
from jobs.engines.checks import arm_problems
from jobs.engines.kind import Metrics
from jobs.engines.kinds import KINDS
from jobs.engines.kinds.sglang import METRICS as SGLANG
from jobs.engines.kinds.vllm import METRICS as VLLM
from jobs.engines.relied_on import DOCUMENT, OLDEST, USES, flags_of, updated
from tests.jobs.engines.commands import words_of
from tests.lab.studies import study

OF_REQUESTS = "per-request-spec-decode-metrics"
NGRAM = {"method": "ngram", "num_speculative_tokens": 3}
OWN_FLAGS = [(kind, name) for kind in USES for name in flags_of(kind)]


def command(has: Capabilities, folder: Path, **arm: Any) -> list[str]:
    return words_of(has.kind, folder, {"speculation": NGRAM} | arm, takes=has.takes)


def having(kind: str, flags: set[str] | None, version: str | None = None) -> Capabilities:
    methods = tuple(KINDS[kind].methods)
    known = None if flags is None else tuple(sorted(flags))
    return Capabilities(engine="e", kind=kind, version=version, methods=methods, flags=known, gpus=())


@pytest.mark.parametrize(("kind", "flag"), OWN_FLAGS)
def test_an_engine_without_one_of_our_flags_does_not_get_it(tmp_path: Path, kind: str, flag: str) -> None:
    ours = flags_of(kind)
    has = having(kind, set(ours) - {flag})
    if ours[flag].needed:
        assert has.takes(flag)  # nothing replaces it, so that the engine itself refuses what it does not have
        return
    words = [word.partition("=")[0] for word in command(has, tmp_path)]
    assert f"--{flag}" not in words
    assert f"--{flag}" in [word.partition("=")[0] for word in command(having(kind, set(ours)), tmp_path)]


@pytest.mark.parametrize("version", ["0.14.1", "0.28.0"])
def test_a_speculating_arm_has_no_flag_that_a_real_older_vllm_lacks(tmp_path: Path, version: str) -> None:
    flags = set(captures()["vllm", version].reported.flags)
    words = command(having("vllm", flags, version), tmp_path)
    given = {word.partition("=")[0].removeprefix("--") for word in words if word.startswith("--")}
    assert given <= flags
    assert "speculative-config" in given
    assert "detailed" not in words


@pytest.mark.parametrize(
    ("version", "passed"),
    [
        ("0.28.0", False),
        ("0.29.0", True),
        ("v0.31.1+cpu", True),
        ("0.29.1.dev3+g1234", True),
        ("0.9.10", False),
        ("1.0", True),
        (None, False),
        ("nightly", False),
    ],
)
def test_an_engine_that_cannot_be_asked_is_judged_by_its_version(version: str | None, *, passed: bool) -> None:
    has = having("vllm", None, version)
    assert has.takes(OF_REQUESTS) is passed
    assert has.takes("generation-config")  # the oldest version has it


def test_speculation_is_refused_where_the_engine_cannot_be_asked_for_it(tmp_path: Path) -> None:
    built = study(arms=[{"name": "a", "baseline": True, "speculation": NGRAM}])
    has = having("vllm", {"host", "port"}, "0.7.3")
    problems = dict(arm_problems("arms[0]", built.arms[0], {}, has))
    assert problems == {
        "arms[0].speculation": "e 0.7.3 has no --speculative-config, by which Drafthouse asks for it: "
        f"use {OLDEST['vllm']} or newer"
    }


def test_a_flag_of_the_study_is_passed_even_where_ours_is_not(tmp_path: Path) -> None:
    words = command(having("vllm", set()), tmp_path, flags={"generation_config": "auto"})
    assert "--generation-config=auto" in words


def test_every_flag_that_is_set_unasked_is_in_the_list(tmp_path: Path) -> None:
    asked_for = {"speculative-num-draft-tokens"}
    for kind in ("vllm", "sglang", "tensorrt_llm"):
        everything = having(kind, set(flags_of(kind)))
        words = command(everything, tmp_path)
        given = {word.partition("=")[0].removeprefix("--") for word in words if word.startswith("--")}
        assert given - asked_for <= set(flags_of(kind)), kind


@pytest.mark.parametrize("metrics", [VLLM, SGLANG])
def test_every_metric_with_a_former_name_says_so_in_the_list(metrics: Metrics) -> None:
    listed = {use.name: use.without for uses in USES.values() for use in uses if use.what == "metric"}
    for name, former in metrics.formerly.items():
        assert former in listed[name]


def test_the_tables_of_the_document_follow_from_the_code() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == updated(text), "run `make docs`"
