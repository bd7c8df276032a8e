"""Two runs are of the same cell when the same was asked of the same model, whatever it was called."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.metrics.records import Identity
from lab.study import Study
from lab.study.cell_ids import Contents, digest, identity
from tests.lab.studies import DRAFT, study

WEIGHTS = Contents(models={"reference": "t" * 64, "reference-draft": "d" * 64})


def identities(
    of_study: Study, contents: Contents = WEIGHTS, arm: int = 1, workload: int = 0, load: int = 0
) -> Identity:
    return identity(of_study, of_study.arms[arm], of_study.workloads[workload], of_study.loads[load], contents)


def drafted(**changes: Any) -> list[dict[str, Any]]:
    return [{"name": "no draft"}, {"name": "draft", "speculation": DRAFT} | changes]


SAME: dict[str, Callable[[], Study]] = {
    "the name of the study": lambda: study(name="another"),
    "the name of the arm": lambda: study(arms=drafted(name="renamed")),
    "which arm is the baseline": lambda: study(arms=drafted(baseline=True)),
    "the number of repeats and their order": lambda: study(repeats=7, order="fewest_launches"),
    "the other arms": lambda: study(
        arms=[*drafted(), {"name": "third", "speculation": {"method": "ngram", "num_speculative_tokens": 2}}]
    ),
    "the SLO, the price and the hardware": lambda: study(slo={"ttft_ms": 1.0}, price_usd_per_hour=2.0, hardware="H200"),
    "the label of the load": lambda: study(loads=[{"label": "alone", "max_concurrency": 1, "num_prompts": 4}]),
}


@pytest.mark.parametrize("change", SAME)
def test_these_do_not_change_what_is_measured(change: str) -> None:
    assert identities(SAME[change]()) == identities(study())


OTHER: dict[str, Callable[[], Study]] = {
    "a flag of the arm": lambda: study(arms=drafted(flags={"enforce_eager": True})),
    "a flag of the study": lambda: study(engine_flags={"enforce_eager": True}),
    "the engine": lambda: study(arms=drafted(engine="sglang")),
    "the environment": lambda: study(arms=drafted(environment={"A": "1"})),
    "the configuration file": lambda: study(arms=drafted(config={"a": 1})),
    "the number of draft tokens": lambda: study(arms=drafted(speculation=DRAFT | {"num_speculative_tokens": 4})),
    "the schedule of draft tokens": lambda: study(
        arms=drafted(
            speculation=DRAFT | {"options": {"num_speculative_tokens_per_batch_size": [[1, 4, 3], [5, 512, 0]]}}
        )
    ),
    "the output length": lambda: study(workloads=[{"category": "code", "output_tokens": 17}]),
    "the category": lambda: study(workloads=[{"output_tokens": 16}]),
    "the concurrency": lambda: study(loads=[{"max_concurrency": 2, "num_prompts": 4}]),
    "the number of prompts": lambda: study(loads=[{"max_concurrency": 1, "num_prompts": 5}]),
    "the temperature": lambda: study(sampling={"temperature": 0.5}),
    "the endpoint": lambda: study(endpoint="chat"),
    "the seed that chooses the prompts": lambda: study(seed=1),
    "the target": lambda: study(target="owner/model"),
}


@pytest.mark.parametrize("change", OTHER)
def test_these_make_another_cell(change: str) -> None:
    assert identities(OTHER[change]()).cell_id != identities(study()).cell_id


def test_a_flag_is_the_same_in_both_spellings_and_places() -> None:
    of_arm = study(arms=drafted(flags={"max_model_len": 512}))
    of_study = study(engine_flags={"max-model-len": 512})
    assert identities(of_arm).cell_id == identities(of_study).cell_id


def test_a_model_is_its_weights_wherever_they_lie() -> None:
    moved = study(target="/elsewhere/target")
    contents = Contents(models={"/elsewhere/target": "t" * 64, "reference-draft": "d" * 64})
    assert identities(moved, contents) == identities(study())
    retrained = Contents(models={"reference": "t" * 64, "reference-draft": "e" * 64})
    assert identities(study(), retrained).arm_id != identities(study()).arm_id


def test_a_dataset_is_its_content_wherever_it_lies() -> None:
    here = study(workloads=[{"dataset": "/a/prompts.jsonl", "output_tokens": 16}])
    elsewhere = study(workloads=[{"dataset": "/b/same.jsonl", "output_tokens": 16}])
    name = {part.workloads[0].name: "c" * 64 for part in (here, elsewhere)}
    contents = Contents(WEIGHTS.models, name)
    assert identities(here, contents) == identities(elsewhere, contents)
    assert identities(here, contents).dataset_digest == "c" * 64
    changed = Contents(WEIGHTS.models, dict.fromkeys(name, "d" * 64))
    assert identities(here, changed).workload_id != identities(here, contents).workload_id


def test_the_arm_and_the_load_are_told_apart_on_their_own() -> None:
    first, other_arm, other_load = identities(study()), identities(study(), arm=0), identities(study(), load=1)
    assert (first.workload_id, first.load_id) == (other_arm.workload_id, other_arm.load_id)
    assert (first.arm_id, first.workload_id) == (other_load.arm_id, other_load.workload_id)
    assert len({cell.cell_id for cell in (first, other_arm, other_load)}) == 3


def test_a_servers_address_is_in_the_digest_and_its_key_not() -> None:
    def server(**changes: str) -> Study:
        return study(arms=drafted(engine="endpoint", server={"base_url": "http://a", "api_key": "one"} | changes))

    assert identities(server()) == identities(server(api_key="two", api_key_header="api-key", ca_file="lab.pem"))
    assert identities(server()).cell_id != identities(server(base_url="http://b")).cell_id


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=6), st.randoms())
def test_the_order_of_keys_is_no_content(form: dict[str, int | str], random: Any) -> None:
    keys = list(form)
    random.shuffle(keys)
    assert digest({key: form[key] for key in keys}) == digest(dict(form))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


ARM = (
    '{"config":{"x":1},"engine":"sglang","environment":{"Ä":"1"},"flags":{"a-b":1,"max-model-len":512},'
    '"speculation":{"method":"draft_model","model":"dd","num_speculative_tokens":3}}'
)
SERVED = '{"engine":"endpoint","server":{"base_url":"http://a","served_model":"m"}}'
WORKLOAD = '{"category":"code","dataset":"cc","output_tokens":16}'
LOAD = '{"max_concurrency":2,"num_prompts":4,"request_rate_rps":3.0}'


def test_digests_are_those_of_bundles_on_disk() -> None:
    """A changed key, spelling or order would make every run measured so far another cell."""
    arm = {
        "name": "draft",
        "engine": "sglang",
        "flags": {"max_model_len": 512},
        "config": {"x": 1},
        "environment": {"Ä": "1"},
        "speculation": DRAFT,
    }
    server = {"base_url": "http://a", "served_model": "m", "api_key": "k"}
    of_study = study(
        arms=[arm, {"name": "served", "engine": "endpoint", "server": server, "baseline": True}],
        workloads=[{"dataset": "prose", "category": "code", "output_tokens": 16}],
        loads=[{"label": "l", "max_concurrency": 2, "num_prompts": 4, "request_rate_rps": 3}],
        engine_flags={"a_b": 1},
        seed=5,
        sampling={"temperature": 0.5},
        endpoint="chat",
    )
    contents = Contents({"reference": "tt", "reference-draft": "dd"}, {of_study.workloads[0].name: "cc"})
    parts = f'"endpoint":"chat","load":{LOAD},"sampling":{{"temperature":0.5}},"seed":5,"target":"tt"'
    assert identities(of_study, contents, arm=0) == Identity(
        cell_id=sha256(f'{{"arm":{ARM},{parts},"workload":{WORKLOAD}}}'),
        arm_id=sha256(ARM),
        workload_id=sha256(f"[{WORKLOAD},5]"),
        load_id=sha256(LOAD),
        dataset_digest="cc",
    )
    with_flags = SERVED.replace('"server"', '"flags":{"a-b":1},"server"')
    assert identities(of_study, contents).arm_id == sha256(with_flags)


def test_what_was_not_read_counts_by_its_name() -> None:
    of_study = study(workloads=[{"dataset": "prose"}], arms=[{"name": "plain"}])
    ids = identities(of_study, Contents(), arm=0)
    assert (ids.arm_id, ids.dataset_digest) == (sha256('{"engine":"vllm"}'), None)
    assert ids.workload_id == sha256('[{"dataset":"prose","output_tokens":64},0]')
    assert Contents({"a": None}).model("a") == "a"
    with pytest.raises(ValueError, match="Out of range float"):
        digest({"a": float("nan")})
