"""Prompts: the same ones in the same order for everybody, or a sentence that says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import UserError
from lab.study import Workload
from warehouse.settings import Settings
from workers.workloads import Prompt, check_workload, load_prompts, warm_up_prompts


def write_rows(path: Path, rows: Iterable[object]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A home with two reference categories of four prompts each."""
    settings = Settings(home=tmp_path / "home")
    for category in ("code", "prose"):
        rows = [{"prompt": f"{category} {i}", "category": category, "source": "a book"} for i in range(4)]
        write_rows(settings.models_dir / "prompts" / f"{category}.jsonl", rows)
    return settings


def test_the_same_seed_gives_the_same_order(settings: Settings) -> None:
    picked = load_prompts(settings, Workload(), 8, seed=3)
    assert picked == load_prompts(settings, Workload(), 8, seed=3)
    assert picked != load_prompts(settings, Workload(), 8, seed=4)
    assert {prompt.text for prompt in picked} == {f"{c} {i}" for c in ("code", "prose") for i in range(4)}


def test_fewer_prompts_are_the_start_of_more(settings: Settings) -> None:
    assert load_prompts(settings, Workload(), 3, seed=1) == load_prompts(settings, Workload(), 8, seed=1)[:3]


def test_a_category_picks_its_own_prompts(settings: Settings) -> None:
    picked = load_prompts(settings, Workload(category="code"), 4, seed=0)
    assert {prompt.category for prompt in picked} == {"code"}


def test_a_prompts_id_depends_on_its_text_alone(settings: Settings, tmp_path: Path) -> None:
    own = write_rows(tmp_path / "own.jsonl", [{"prompt": "code 1"}])
    (prompt,) = load_prompts(settings, Workload(dataset=own), 1, seed=9)
    ids = {p.text: p.prompt_id for p in load_prompts(settings, Workload(), 8, seed=0)}
    assert (prompt.prompt_id, prompt.category) == (ids["code 1"], None)
    assert len(set(ids.values())) == 8


def test_asking_for_too_many_names_the_number_there_is(settings: Settings) -> None:
    with pytest.raises(UserError, match="dataset reference has 8 prompts, but num_prompts asks for 9"):
        check_workload(settings, Workload(), 9)
    with pytest.raises(UserError, match="category code, has 4 prompts"):
        check_workload(settings, Workload(category="code"), 5)


def test_an_unknown_category_names_the_known_ones(settings: Settings) -> None:
    with pytest.raises(UserError, match="no category 'cod'; its categories are code, prose"):
        check_workload(settings, Workload(category="cod"), 1)


def test_a_category_of_a_dataset_without_any_says_so(settings: Settings, tmp_path: Path) -> None:
    own = write_rows(tmp_path / "own.jsonl", [{"prompt": "a"}])
    with pytest.raises(UserError, match="leave category out"):
        check_workload(settings, Workload(dataset=own, category="code"), 1)


def test_reference_prompts_that_are_not_prepared_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"make models"):
        check_workload(Settings(home=tmp_path), Workload(), 1)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"prompt": "half', "line 2: this is not valid JSON"),
        ("[1]", "line 2: a row is a JSON object like"),
        ('{"text": "a"}', "line 2: the row has no prompt"),
        ('{"prompt": 7}', "line 2: prompt must be text that is not empty, got '7'"),
        ('{"prompt": "  "}', "line 2: prompt must be text that is not empty"),
        ('{"prompt": "a", "category": 3}', "line 2: category must be text"),
    ],
)
def test_a_bad_row_is_named_with_its_line(settings: Settings, tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('{"prompt": "good"}\n' + line + "\n")
    with pytest.raises(UserError, match=words):
        check_workload(settings, Workload(dataset=str(path)), 1)


def test_blank_lines_and_other_tools_keys_are_left_alone(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text('\n{"prompt": "a\\u2028b", "output_tokens": 5}\n\n')
    (prompt,) = load_prompts(settings, Workload(dataset=str(path)), 1, seed=0)
    assert prompt.text == "a\u2028b"


def test_a_dataset_that_is_not_there_says_what_to_name(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file; name a JSONL file, or use reference"):
        check_workload(settings, Workload(dataset="nowhere.jsonl"), 1)
    with pytest.raises(UserError, match="cannot be read"):
        check_workload(settings, Workload(dataset=str(tmp_path)), 1)


def test_a_dataset_in_another_encoding_says_so(settings: Settings, tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes('{"prompt": "é"}'.encode("latin-1"))
    with pytest.raises(UserError, match="cannot be read: 'utf-8' codec"):
        check_workload(settings, Workload(dataset=str(path)), 1)


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5), st.integers(1, 20))
def test_warm_up_prompts_are_all_different_from_the_measured_ones(texts: list[str], count: int) -> None:
    prompts = [Prompt(str(place), None, text) for place, text in enumerate(texts)]
    warm = warm_up_prompts(prompts, count)
    starts = [prompt.text.split(">")[0] for prompt in warm]
    assert len(set(starts)) == count
