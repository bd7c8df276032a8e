"""`drafthouse bisect` on five wheels and on commits that are built into wheels: real installs, measured by a worker."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from jobs.series import store
from jobs.series.store import Plan
from lab.errors import UserError
from tests.actors import ADMIN
from tests.cli import homes
from tests.cli.homes import DRAFTHOUSE, REPOSITORY
from tests.cli.verbs.measure.thin_engine import build, serving
from tests.workers.homes import NGRAM, Home, at_work, new_home, until
from warehouse.app_db.schema import bisect_steps
from workers.engine_runtime.versions import install_version, order_of, versions_between

_TABLE = f"""
[thin]
kind = "vllm"
command = ["{{engines}}/thin/bin/thin-serve"]
[thin.environment]
PYTHONPATH = "{REPOSITORY}"
"""
_STUDY = {
    "arms": [{"name": "plain", "engine": "thin"}, {"name": "drafted", "engine": "thin", "speculation": NGRAM}],
    "loads": [{"max_concurrency": 1, "num_prompts": 4}],
    "order": "side_by_side",
    "repeats": 2,
    "repeats_per_launch": 2,
}


@pytest.fixture
def lab(tmp_path: Path, migrated: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """With a series on an engine of which five wheels lie in the folder wheels: the third is the first bad one."""
    engines, wheels = tmp_path / "engines", tmp_path / "wheels"
    program = engines / "thin" / "bin" / "thin-serve"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/false\n")
    program.chmod(0o755)
    wheels.mkdir()
    for number in range(1, 6):
        build(wheels, f"1.0.{number}", serving(accepted=2 if number < 3 else 1))
    with new_home(tmp_path, migrated, engines_dir=engines) as home:
        with home.settings.engines_file.open("a", encoding="utf-8") as file:
            file.write(_TABLE)
        monkeypatch.setenv("DRAFTHOUSE_ENGINES_FILE", str(home.settings.engines_file))
        monkeypatch.setenv("DRAFTHOUSE_ENGINES_DIR", str(engines))
        store.add(home.settings, home.database, "nightly", home.study(**_STUDY), Plan("day at 02:00"), actor=ADMIN)
        yield home


def steps(lab: Home) -> list[tuple[int, str | None]]:
    with lab.database.connect() as connection:
        query = sa.select(bisect_steps.c.version, bisect_steps.c.job_id).order_by(bisect_steps.c.number)
        return [(version, job_id) for version, job_id in connection.execute(query)]


def test_the_first_bad_wheel_of_five_is_found_although_the_bisect_is_killed(lab: Home) -> None:
    command = homes.new_home(lab.settings.home)
    words = (
        *("bisect", "nightly", "--good", "1.0.1", "--bad", "1.0.5", "--measure", "acceptance-length"),
        *("--over", f"wheels in {lab.folder / 'wheels'}"),
    )
    killed = subprocess.Popen((DRAFTHOUSE, *words), cwd=REPOSITORY, env=command.environment, stdout=subprocess.PIPE)
    until(lambda: steps(lab), "its first step")
    killed.kill()
    killed.communicate()
    with at_work(lab):
        answer = command.ask(*words)
    assert answer.returncode == 0, answer
    assert (
        "the first bad version is 1.0.3: the acceptance length fell by 25.0 % (wrong with a chance of " in answer.stdout
    )
    # Beside a busy neighbour some runs are invalid: then a block is missing, or an end is measured again.
    assert "1.0.3: bad, acceptance length 2.000 in " in answer.stdout
    made = steps(lab)
    assert list(dict.fromkeys(version for version, _ in made)) == [0, 4, 2, 1, 3]
    assert len({job_id for _, job_id in made}) == len(made)
    again = command.ask(*words, "--json")
    assert (again.returncode, json.loads(again.stdout)["first_bad"]) == (0, "1.0.3")
    assert steps(lab) == made
    build(lab.folder / "wheels", "1.0.4", serving(accepted=0))
    changed = command.ask(*words)
    assert changed.returncode == 2
    assert "or their files have changed since: --anew begins again" in changed.stderr


def test_commits_are_built_and_installed_and_one_that_cannot_be_is_named(lab: Home) -> None:
    repository = lab.folder / "repository"
    repository.mkdir()

    def git(*words: str) -> str:
        who = ("-c", "user.name=ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(("git", *who, *words), cwd=repository, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "--quiet")
    commits = []
    for number in (1, 2, 3):
        shutil.copy(lab.folder / "wheels" / f"thin_engine-1.0.{number}-py3-none-any.whl", repository / "built.whl")
        git("add", ".")
        git("commit", "--quiet", "-m", str(number))
        commits.append(git("rev-parse", "HEAD"))
    source = f'commits of {repository} built by cp built.whl "$WHEELS/thin_engine-1-py3-none-any.whl"'
    versions = versions_between(source, "HEAD~2", "HEAD")
    assert [version.digest for version in versions] == commits
    with pytest.raises(UserError, match="failed:"):
        install_version(lab.settings, "thin", source, versions[1])  # the name does not say what is in it
    renamed = source.replace("thin_engine-1-", "thin_engine-1.0.2-")
    engine = install_version(lab.settings, "thin", renamed, versions[1])
    assert (lab.settings.engines_dir / engine / "bin" / "thin-serve").exists()
    assert f"[{engine}]" in lab.settings.engines_file.read_text()
    assert install_version(lab.settings, "thin", renamed, versions[1]) == engine
    with pytest.raises(UserError, match=r"left 0 wheels in \$WHEELS, and one is needed"):
        install_version(lab.settings, "thin", f"commits of {repository} built by true", versions[0])
    with pytest.raises(UserError, match="is not before"):
        versions_between(source, "HEAD", "HEAD~1")
    with pytest.raises(UserError, match="'nothing' is not a commit of"):
        versions_between(source, "nothing", "HEAD")


def test_versions_are_in_pythons_order_and_unknown_ones_refused(tmp_path: Path) -> None:
    order = ["0.9", "0.10.dev2", "0.10a1", "0.10rc2.dev35+gabc", "0.10rc2", "0.10.0", "0.10.0.post1", "0.10.1"]
    assert sorted(set(order), key=order_of) == order
    for version in ("1.0", "1.1"):
        build(tmp_path, version, "pass")
    over = f"wheels in {tmp_path}"
    for good, bad, source, words in (
        ("1.0", "1.2", over, "there is no version '1.2' in .* which has 1.0, 1.1"),
        ("1.1", "1.0", over, "1.1 is not before 1.0"),
        ("1.0", "1.1", "wheels", "names no versions: write"),
    ):
        with pytest.raises(UserError, match=words):
            versions_between(source, good, bad)
