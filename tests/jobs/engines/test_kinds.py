"""The kinds of engines as a whole, and their description in docs/engines.md."""

from __future__ import annotations

import re
import tomllib

import pytest
from pydantic import ValidationError

from jobs.engines.kinds import KINDS
from jobs.engines.kinds.sglang import METRICS as SGLANG
from jobs.engines.kinds.tensorrt_llm import METRICS as TENSORRT_LLM
from jobs.engines.kinds.vllm import METRICS as VLLM
from jobs.engines.profiles import Profile
from lab.study import Arm
from lab.study.methods import METHODS
from tests.workers.homes import REPOSITORY
from workers.probes.engine_metrics import GaugeReading, parse_counters, parse_gauges

DOCUMENT = (REPOSITORY / "docs" / "engines.md").read_text()
EXAMPLES = re.findall(r"```toml\n(.*?)```", DOCUMENT, re.DOTALL)


def test_a_profile_may_have_every_kind_and_each_is_documented() -> None:
    for name in KINDS:
        assert Profile(kind=name, command=("program",)).kind == name
        assert f"\n| `{name}` | " in DOCUMENT
    with pytest.raises(ValidationError, match="must be one of vllm, sglang"):
        Profile(kind="magic", command=("program",))


def test_methods_name_only_engines_that_exist() -> None:
    assert {kind for method in METHODS.values() for kind in method.engines} <= set(KINDS)


@pytest.mark.parametrize("text", EXAMPLES)
def test_the_examples_of_the_document_are_tables_that_are_taken(text: str) -> None:
    data = tomllib.loads(text)
    for arm in data.pop("arms", []):
        Arm.model_validate(arm)
    for profile in data.values():
        Profile.model_validate(profile)


def test_the_commented_tables_of_engines_toml_are_taken_too() -> None:
    lines = (REPOSITORY / "engines.toml").read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("# ["))
    tables = tomllib.loads("\n".join(line.removeprefix("# ") for line in lines[first:]))
    assert {Profile.model_validate(table).kind for table in tables.values()} == {"vllm", "sglang", "tensorrt_llm"}


def test_places_that_were_drafted_and_never_accepted_count_as_zero() -> None:
    page = """\
trtllm_generation_tokens_total 40
trtllm_spec_decode_drafted_tokens_total{token_position="0",worker="0"} 10
trtllm_spec_decode_drafted_tokens_total{token_position="0",worker="1"} 10
trtllm_spec_decode_drafted_tokens_total{token_position="1",worker="1"} 15
trtllm_spec_decode_accepted_tokens_total{token_position="0",worker="1"} 7
"""
    counters = parse_counters(page, TENSORRT_LLM)
    assert (counters.num_drafts, counters.num_draft_tokens, counters.num_accepted_tokens) == (20, 35, 7)
    assert counters.num_accepted_tokens_per_position == (7, 0)
    assert counters.prefix_cache_queries is None  # it tells of no hits, so it may have no cache


def test_a_server_that_does_not_speculate_has_no_such_counters() -> None:
    assert parse_counters("trtllm_generation_tokens_total 40\n", TENSORRT_LLM).num_drafts is None
    assert parse_counters("sglang:generation_tokens_total 40\n", SGLANG).num_drafts is None


def test_gauges_are_summed_over_ranks_and_cache_shares_are_averaged() -> None:
    page = "".join(
        f'vllm:num_requests_running{{engine="{rank}"}} 2\nvllm:kv_cache_usage_perc{{engine="{rank}"}} 0.5\n'
        for rank in (0, 1)
    )
    assert parse_gauges(page, VLLM) == GaugeReading(engine_running=4, kv_cache_usage=0.5)
