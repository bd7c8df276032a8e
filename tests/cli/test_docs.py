"""What the documents say is what the code does."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from cli import reference
from jobs.presets import load_preset
from lab.study.parsing import study_from_toml
from tests.cli.homes import REPOSITORY

DOCUMENTS = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md")))
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", reference.documents(), ids=lambda path: path.name)
def test_a_generated_document_is_up_to_date(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == reference.documents()[path], "run `make docs`"


@pytest.mark.parametrize("document", ["README.md", "docs/start.md"])
def test_the_study_in_a_document_is_valid(document: str) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", (REPOSITORY / document).read_text("utf-8"), re.DOTALL)
    assert study_from_toml(text).baseline.name == "no draft"


def test_every_verb_in_the_documents_exists() -> None:
    text = "".join(path.read_text("utf-8") for path in DOCUMENTS)
    named = set(re.findall(r"(?:`|^|/)drafthouse ([a-z]+)", text, re.MULTILINE))
    verbs = set(re.findall(r"^## ([a-z]+)", (REPOSITORY / "docs/cli.md").read_text("utf-8"), re.MULTILINE))
    assert named
    assert named - verbs == set()


def test_every_make_target_in_the_readme_exists() -> None:
    targets = set(re.findall(r"\bmake ([a-z-]+)", README + (REPOSITORY / "docs" / "deployment.md").read_text()))
    for target in targets:
        answer = subprocess.run(("make", "-n", target), cwd=REPOSITORY, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr


def test_make_help_lists_every_documented_target() -> None:
    text = subprocess.run(("make", "help"), cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert all(f"{target} " in text for target in ("demo", "test", "check", "bench", "up", "help"))


def test_make_finds_a_python_that_is_new_enough_and_can_make_environments() -> None:
    found = subprocess.run("bin/find-python", cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()
    script = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    subprocess.run((found, "-c", script), check=True)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_file_and_heading_a_document_links_to_exists(path: Path) -> None:
    for link, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", path.read_text("utf-8")):
        linked = path.parent / link if link else path
        assert linked.exists(), link
        if heading:
            titles = re.findall(r"^#+ (.*)$", linked.read_text("utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}
            assert heading in anchors, f"{link}#{heading}"


def test_the_demo_study_shows_several_methods_categories_and_concurrencies() -> None:
    study = load_preset("demo")
    assert {arm.speculation.method for arm in study.arms if arm.speculation} >= {"draft_model", "eagle3"}
    assert len({workload.category for workload in study.workloads}) >= 2
    assert study.repeats >= 2  # one repeat decides nothing
    assert [load.max_concurrency for load in study.loads] == [1, 2, 8]


def test_all_versions_are_pinned() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    assert not [requirement for requirement in wanted if "==" not in requirement]
