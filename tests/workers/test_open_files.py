"""A load has as many open files as it needs, or is refused with what it needs and what there may be."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from jobs import queue
from lab.study.parsing import study_to_toml
from tests.workers.homes import REPOSITORY, Home, worker_environment

RAISED = """
import resource
from jobs import open_files
open_files.raise_limit()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
WORKS = """
from host.settings import load_settings
from workers.worker import Worker
Worker(load_settings()).work()
"""
SUBMITS = """
import sys
from pathlib import Path
from jobs import queue
from lab.study.parsing import study_from_toml
from tests.actors import ADMIN
from host.settings import load_settings
queue.submit(load_settings(), study_from_toml(Path(sys.argv[1]).read_text()), actor=ADMIN)
"""
MANY = [{"max_concurrency": 300, "num_prompts": 300}]
SENTENCE = (
    "loads[0].max_concurrency: 300 requests at once need 556 open files, and a process may have 400 here (ulimit -Hn): "
    "ask for 144 at once, or raise that limit"
)


def limited(
    limits: str, program: str, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of Python in a shell with these limits."""
    return subprocess.run(
        ("bash", "-c", f'{limits}; exec "$@"', "-", sys.executable, "-c", program, *arguments),
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


@pytest.mark.parametrize(
    ("limits", "raised"),
    [
        ("ulimit -Sn 64; ulimit -Hn 400", "400 400"),
        ("ulimit -Sn 1024; ulimit -Hn 4000", "4000 4000"),
        ("ulimit -n 4000", "4000 4000"),
    ],
)
def test_a_worker_may_open_as_many_files_as_its_hard_limit(limits: str, raised: str) -> None:
    assert limited(limits, RAISED).stdout.strip() == raised


def study(home: Home) -> dict[str, Any]:
    prompts = home.folder / "many.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": f"Prompt number {number}"}) + "\n" for number in range(320)))
    workloads = [{"dataset": str(prompts), "output_tokens": 8}]
    return {"arms": [{"name": "plain"}], "loads": MANY, "workloads": workloads}


def test_a_load_of_too_many_files_is_refused_at_submission(home: Home) -> None:
    file = home.folder / "study.toml"
    file.write_text(study_to_toml(home.study(**study(home))))
    done = limited("ulimit -n 400", SUBMITS, str(file), environment=worker_environment(home))
    assert done.returncode == 1
    assert SENTENCE in done.stderr


def test_a_worker_with_fewer_files_than_the_submitter_says_so(home: Home) -> None:
    job_id = home.submit(**study(home))
    done = limited("ulimit -n 400", WORKS, environment=worker_environment(home))
    assert (done.returncode, home.job(job_id).state) == (0, "queued"), done.stderr
    why = queue.events(home.database, job_id)[-1].detail
    assert f"cannot measure it: {SENTENCE.partition(': ')[2]}" in why


def test_a_load_above_the_soft_limit_is_answered_whole(home: Home) -> None:
    job_id = home.submit(**study(home) | {"loads": [{"max_concurrency": 100, "num_prompts": 100}]})
    program = f"from jobs import open_files\nopen_files.raise_limit()\n{WORKS}"
    done = limited("ulimit -Sn 90", program, environment=worker_environment(home))
    assert (home.job(job_id).state, home.job(job_id).error) == ("done", None), done.stderr
    assert [run.status for run in home.runs()] == ["completed"]
