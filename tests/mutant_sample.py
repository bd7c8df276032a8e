"""`make mutants SAMPLE=500`: run a random sample of the mutants, and estimate from it the share that the tests notice.

`python -m tests.mutant_sample COUNT [--seed N] [--max-children N]`. The mutants, sorted by module and function, are cut
into COUNT runs of equal length and one is drawn from each, so that the sample is spread over all modules.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import secrets
import subprocess
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from lab.comparison.agreement import share

_MUTANTS = Path("mutants")
#: Exit codes of mutmut for a mutant that nothing noticed: survived, or without a test.
_UNNOTICED = (0, 5, 33)


def results() -> dict[str, int | None]:
    """Return mutmut's exit code of every mutant by its name, None if it was not run."""
    exit_codes: dict[str, int | None] = {}
    for path in sorted(_MUTANTS.rglob("*.py.meta")):
        exit_codes |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return exit_codes


def draw(names: Sequence[str], count: int, seed: int) -> list[str]:
    """Draw one name from each of `count` consecutive runs of equal length."""
    chance = random.Random(seed)  # noqa: S311 - a sample, no secret
    edges = [place * len(names) // count for place in range(count + 1)]
    return [names[chance.randrange(begin, end)] for begin, end in itertools.pairwise(edges)]


def report(sample: Sequence[str]) -> None:
    """Print the mutants that nothing noticed, the share by module, and the share of all with its interval."""
    exit_codes = results()
    noticed = {name: exit_codes[name] not in _UNNOTICED for name in sample if exit_codes.get(name) is not None}
    by_module: dict[str, list[bool]] = defaultdict(list)
    for name, was_noticed in noticed.items():
        by_module[name.rpartition(".")[0]].append(was_noticed)
    print("\n".join(f"unnoticed: {name}" for name, was_noticed in noticed.items() if not was_noticed))
    for module, codes in sorted(by_module.items()):
        print(f"{sum(codes):5} of {len(codes):4} noticed  {module}")
    whole = share(sum(noticed.values()), len(noticed))
    assert whole is not None, "no mutant was run"
    assert whole.low is not None, "an interval needs a mutant"
    assert whole.high is not None, "an interval needs a mutant"
    interval = f"{whole.low:.1%} to {whole.high:.1%}"
    print(f"{sum(noticed.values())} of {len(noticed)} noticed: {whole.value:.1%}, 95 % interval {interval}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make mutants SAMPLE=COUNT", description="Run a random sample of mutants.")
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    parser.add_argument("--max-children", default="2")
    arguments = parser.parse_args()
    mutmut = [sys.executable, "-m", "mutmut", "run", "--max-children", arguments.max_children]
    if not results():
        subprocess.run([*mutmut, "lab.errors.*"], check=True)  # writes the mutants and the statistics of the tests
    sample = draw(sorted(results()), arguments.count, arguments.seed)
    print(f"sample of {len(sample)} mutants, seed {arguments.seed}", flush=True)
    subprocess.run([*mutmut, *sample], check=True)
    report(sample)


if __name__ == "__main__":
    main()
