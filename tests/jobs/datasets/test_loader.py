"""Prompts are the same in the same order for every arm, or an error says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host.settings import Settings
from jobs.datasets.listing import dataset_digest
from jobs.datasets.loader import check_workload, load_prompts
from jobs.datasets.prompt import Message, Prompt, warm_up_prompts
from lab.errors import UserError
from lab.study import Workload
from tests.jobs.datasets.rows import write_rows

SAMPLES = (
    *("story", "summarisation", "summarisation_sample", "sharegpt_sample", "spec_bench_sample"),
    *("burstgpt_sample", "swe_bench_sample", "mlperf_summarisation_sample", "gsm8k_sample"),
)
MADE = (
    Workload(dataset="random", input_tokens=12),
    Workload(dataset="random_s"),
    Workload(dataset="prefix_repetition", prefix_tokens=8, num_prefixes=3, input_tokens=4),
)
EVERY_WORKLOAD = (Workload(), *(Workload(dataset=name) for name in SAMPLES), *MADE)


@pytest.mark.parametrize("workload", EVERY_WORKLOAD, ids=lambda workload: workload.dataset)
def test_the_same_seed_gives_the_same_prompts_in_the_same_order_however_many(
    settings: Settings, workload: Workload
) -> None:
    picked = load_prompts(settings, workload, 8, seed=3, target="reference")
    assert len({prompt.prompt_id for prompt in picked}) == 8
    assert picked == load_prompts(settings, workload, 8, seed=3, target="reference")
    assert picked[:3] == load_prompts(settings, workload, 3, seed=3, target="reference")
    assert picked != load_prompts(settings, workload, 8, seed=4, target="reference")


@pytest.mark.parametrize("dataset", [*SAMPLES, "reference"])
def test_a_dataset_with_a_file_has_a_digest_and_can_be_checked(settings: Settings, dataset: str) -> None:
    digest = dataset_digest(settings, Workload(dataset=dataset))
    assert digest is not None
    assert len(digest) == 64
    check_workload(settings, Workload(dataset=dataset), 8, target="reference")


def test_the_digest_follows_the_content_of_the_file(settings: Settings, tmp_path: Path) -> None:
    own = Workload(dataset=write_rows(tmp_path / "own.jsonl", [{"prompt": "a"}]))
    before = dataset_digest(settings, own)
    write_rows(tmp_path / "own.jsonl", [{"prompt": "a longer one"}])
    assert dataset_digest(settings, own) != before
    assert dataset_digest(settings, MADE[0]) is None


def test_a_category_picks_its_own_prompts(settings: Settings) -> None:
    picked = load_prompts(settings, Workload(category="code"), 4, seed=0)
    assert {prompt.category for prompt in picked} == {"code"}


def test_a_prompts_id_depends_on_its_text_alone(settings: Settings, tmp_path: Path) -> None:
    own = write_rows(tmp_path / "own.jsonl", [{"prompt": "code 1"}])
    (prompt,) = load_prompts(settings, Workload(dataset=own), 1, seed=9)
    ids = {p.text: p.prompt_id for p in load_prompts(settings, Workload(), 8, seed=0)}
    assert (prompt.prompt_id, prompt.category) == (ids["code 1"], None)
    assert len(set(ids.values())) == 8


def test_messages_are_kept_as_messages_and_as_text(settings: Settings, tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    own = write_rows(tmp_path / "own.jsonl", [{"messages": messages, "category": "chat"}])
    (prompt,) = load_prompts(settings, Workload(dataset=own), 1, seed=0)
    assert prompt.messages == (Message("system", "Be brief."), Message("user", "Why?"))
    assert (prompt.text, prompt.category) == ("Be brief.\n\nWhy?", "chat")


def test_own_output_lengths_are_those_of_the_rows_if_asked_for(settings: Settings, tmp_path: Path) -> None:
    own = write_rows(tmp_path / "own.jsonl", [{"prompt": f"p{n}", "output_tokens": n} for n in range(1, 5)])
    prompts = load_prompts(settings, Workload(dataset=own, own_output_lengths=True), 4, seed=0)
    assert {prompt.text: prompt.output_tokens for prompt in prompts} == {f"p{n}": n for n in range(1, 5)}
    assert {prompt.output_tokens for prompt in load_prompts(settings, Workload(dataset=own), 4, seed=0)} == {None}


def test_a_dataset_without_output_lengths_refuses_to_be_asked_for_them(settings: Settings, tmp_path: Path) -> None:
    own = write_rows(tmp_path / "own.jsonl", [{"prompt": "a", "output_tokens": 3}, {"prompt": "b"}])
    sentences = {own: "does not record an output length for each", "random_s": "records no output lengths"}
    for dataset, words in sentences.items():
        with pytest.raises(UserError, match=words):
            check_workload(settings, Workload(dataset=dataset, own_output_lengths=True), 1)


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
    for dataset in (own, "random_s"):
        with pytest.raises(UserError, match="leave category out"):
            check_workload(settings, Workload(dataset=dataset, category="code"), 1)


def test_settings_that_the_dataset_does_not_have_are_refused(settings: Settings) -> None:
    for workload, words in (
        (Workload(input_tokens=5), "input_tokens only apply to random and prefix_repetition, not reference"),
        (Workload(dataset="random"), "dataset random needs input_tokens"),
        (Workload(dataset="random", input_tokens=5, num_prefixes=2), "belong to dataset prefix_repetition"),
    ):
        with pytest.raises(UserError, match=words):
            check_workload(settings, workload, 1)


def test_a_trace_needs_a_dataset_with_arrival_times(settings: Settings) -> None:
    check_workload(settings, Workload(dataset="burstgpt_sample"), 4, trace=True)
    for dataset in ("reference", "random_s"):
        with pytest.raises(UserError, match="records no arrival times to replay: try burstgpt"):
            check_workload(settings, Workload(dataset=dataset), 4, trace=True)


def test_reference_prompts_that_are_not_prepared_name_the_command(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="drafthouse install"):
        check_workload(Settings(home=tmp_path), Workload(), 1)


def test_a_dataset_that_is_not_there_says_what_to_name(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no such file; use a JSONL file, or one of `drafthouse datasets`"):
        check_workload(settings, Workload(dataset="nowhere.jsonl"), 1)
    with pytest.raises(UserError, match="is not a regular file"):
        check_workload(settings, Workload(dataset=str(tmp_path)), 1)
    with pytest.raises(UserError, match="no dataset 'sharegtp': did you mean sharegpt"):
        check_workload(settings, Workload(dataset="sharegtp"), 1)


def test_a_dataset_that_must_be_fetched_says_where_to_get_it(settings: Settings) -> None:
    with pytest.raises(UserError) as refused:
        check_workload(settings, Workload(dataset="sharegpt"), 1)
    sentence = str(refused.value)
    assert "ShareGPT_V3_unfiltered_cleaned_split.json" in sentence
    assert "https://huggingface.co/datasets/anon8231489123" in sentence
    assert "`drafthouse datasets add sharegpt FILE`" in sentence


def test_counting_without_saying_whose_tokenizer_counts_is_a_mistake_of_ours(settings: Settings) -> None:
    with pytest.raises(ValueError, match="whose tokenizer"):
        load_prompts(settings, Workload(dataset="random_s"), 1, seed=0)


def test_a_target_without_a_tokenizer_is_refused_where_lengths_are_counted(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    check_workload(settings, Workload(), 1, target=str(tmp_path / "model"))
    for dataset in ("random_s", "sharegpt_sample", "burstgpt_sample"):
        with pytest.raises(UserError, match=r"has no tokenizer\.json"):
            check_workload(settings, Workload(dataset=dataset), 1, target=str(tmp_path / "model"))
    (tmp_path / "model" / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match="is not a readable tokenizer"):
        check_workload(settings, Workload(dataset="random_s"), 1, target=str(tmp_path / "model"))


@given(st.lists(st.text(min_size=1), min_size=1, max_size=5), st.integers(1, 20))
def test_warm_up_prompts_are_all_different_from_the_measured_ones(texts: list[str], count: int) -> None:
    prompts = [Prompt(str(place), None, text) for place, text in enumerate(texts)]
    warm = warm_up_prompts(prompts, count)
    starts = [prompt.text.split(">")[0] for prompt in warm]
    assert len(set(starts)) == count


@given(st.integers(1, 6), st.integers(2, 40), st.integers(1, 12))
def test_warm_up_prompts_are_as_long_and_begin_differently(count: int, tokens: int, warm_count: int) -> None:
    ids = [tuple(range(place * 100, place * 100 + tokens)) for place in range(count)]
    messages = (
        Message("system", "You are a very patient and friendly assistant."),
        Message("user", "Hello there, who?"),
    )
    prompts = [Prompt(str(n), None, "text", token_ids=ids[n], messages=messages, output_tokens=7) for n in range(count)]
    for warm in warm_up_prompts(prompts, warm_count):
        assert warm.token_ids is not None
        assert warm.messages is not None
        assert warm.token_ids[:1] not in {token_ids[:1] for token_ids in ids}
        assert len(warm.token_ids) == tokens
        assert warm.messages[0].content[:3] != messages[0].content[:3]
        assert warm.messages[1:] == messages[1:]
        assert warm.output_tokens == 7


def test_every_row_of_the_shipped_files_can_be_read(settings: Settings) -> None:
    folder = Path(__file__).parents[3] / "datasets"
    for path in folder.glob("*.jsonl"):
        assert all(json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
