"""`make audit`: known vulnerabilities of what the lock files name, by pip-audit. `--only-say` never fails.

A vulnerability is found on a day without any change here, so `make check` says it and goes on. Without the network, or
a registry that knows of vulnerabilities, one line says that nothing was looked at.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

AUDITOR = "pip-audit==2.10.1"
LOCKS = ("requirements-test.lock",)  # it has all of requirements.lock
_ROOT = Path(__file__).parents[1]
_TIMEOUT_S = 90
#: What pip-audit ends with if it finds any.
_FOUND = 1


def main(arguments: list[str]) -> int:
    known: list[str] = []
    for lock in LOCKS:
        vulnerable, sentence = verdict(lock, *_asked(lock))
        known += vulnerable
        print(sentence)
    for line in known:
        print(f"  {line}")
    return _FOUND if known and "--only-say" not in arguments else 0


def verdict(lock: str, answer: str, trouble: str = "") -> tuple[list[str], str]:
    """The vulnerable packages of a lock file, and a sentence; from pip-audit's answer as JSON."""
    try:
        packages = json.loads(answer)["dependencies"]
    except (ValueError, LookupError, TypeError):
        why = (trouble.strip().splitlines() or ["no answer"])[-1]
        return [], f"{lock} was not audited for known vulnerabilities: {why[:200]}"
    looked_at = [package for package in packages if "vulns" in package]
    if not looked_at:
        return [], f"{lock} was not audited for known vulnerabilities: this registry knows of none"
    vulnerable = [
        f"{package['name']} {package['version']}: {vulnerability['id']}, mended in {_versions(vulnerability)}"
        for package in looked_at
        for vulnerability in package["vulns"]
    ]
    return (
        vulnerable,
        f"{lock}: {len(vulnerable)} known vulnerabilities in {len(looked_at)} of {len(packages)} packages",
    )


def _versions(vulnerability: dict[str, list[str]]) -> str:
    return ", ".join(vulnerability.get("fix_versions", ())) or "no version yet"


def _asked(lock: str) -> tuple[str, str]:
    """pip-audit's answer, and what it says of its trouble."""
    tool = (str(Path(sys.executable).with_name("uv")), "tool", "run", "--quiet", "--from", AUDITOR, "pip-audit")
    options = ("--require-hashes", "--disable-pip", "--progress-spinner", "off", "--format", "json", "-r", lock)
    try:
        done = subprocess.run(
            (*tool, *options), cwd=_ROOT, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{type(error).__name__}"
    return done.stdout, done.stderr


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
