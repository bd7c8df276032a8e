"""The audit's sentences, from answers as pip-audit gives them; `make audit` itself needs the network."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping

from tests import audit
from tests.cli.homes import REPOSITORY

CLEAN = {"name": "aiohttp", "version": "3.14.5", "vulns": []}
SKIPPED = {"name": "yarl", "skip_reason": "Dependency not found on PyPI"}
KNOWN = {
    "name": "old",
    "version": "1.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1", "2.0"], "aliases": ["CVE-1"]}, {"id": "PYSEC-2"}],
}


def answer(*packages: Mapping[str, object]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_what_is_vulnerable_is_named_with_what_mends_it() -> None:
    vulnerable, sentence = audit.verdict("a.lock", answer(CLEAN, SKIPPED, KNOWN))
    assert vulnerable == ["old 1.0: PYSEC-1, mended in 1.1, 2.0", "old 1.0: PYSEC-2, mended in no version yet"]
    assert sentence == "a.lock: 2 known vulnerabilities in 2 of 3 packages"
    assert audit.verdict("a.lock", answer(CLEAN)) == ([], "a.lock: 0 known vulnerabilities in 1 of 1 packages")


def test_without_the_network_one_line_says_that_nothing_was_looked_at() -> None:
    for unanswered in (("", "a\nConnectionError: no route"), ("[]", ""), ("nonsense", "")):
        vulnerable, sentence = audit.verdict("a.lock", *unanswered)
        assert vulnerable == []
        assert sentence.startswith("a.lock was not audited for known vulnerabilities: ")
        assert "\n" not in sentence
    assert audit.verdict("a.lock", answer(SKIPPED))[1].endswith("this registry knows of none")


def test_make_installs_nothing_whose_hash_is_not_pinned() -> None:
    """uv too, which installs everything else. Our own package comes from this folder."""
    installs = re.findall(r"pip install (.*)", (REPOSITORY / "Makefile").read_text())
    locks = [
        re.search(r"--require-hashes -r (\S+)$", words) for words in installs if not words.endswith("--no-deps -e .")
    ]
    assert len(locks) >= 5
    for lock in locks:
        assert lock is not None
        assert all("--hash=sha256:" in pinned for pinned in packages((REPOSITORY / lock[1]).read_text()))
    mutants = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]["mutants"]
    assert set(mutants) <= set((REPOSITORY / "tests/mutants.lock").read_text().split())


def packages(lock: str) -> list[str]:
    """Each package of a lock file with what belongs to it."""
    whole = re.sub(r"^ *#.*\n", "", lock, flags=re.MULTILINE)
    return re.split(r"\n(?=[a-z])", whole.replace("\\\n", " ").strip())


def test_it_looks_at_all_that_is_installed() -> None:
    for lock in audit.LOCKS:
        assert (REPOSITORY / lock).exists()
    wanted = (REPOSITORY / "requirements.lock").read_text().split()
    every = (REPOSITORY / "requirements-test.lock").read_text().split()
    assert {word for word in wanted if "==" in word} <= set(every)
