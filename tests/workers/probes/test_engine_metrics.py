"""An engine's counters and gauges, read from a running server; one that is not printed is None, never 0."""

from __future__ import annotations

import pytest

from jobs.engines.kind import Metrics
from jobs.engines.kinds.llama_cpp import METRICS as LLAMA_CPP
from jobs.engines.kinds.sglang import METRICS as SGLANG
from jobs.engines.kinds.tensorrt_llm import METRICS as TENSORRT_LLM
from jobs.engines.kinds.vllm import METRICS as VLLM
from lab.errors import EngineError
from lab.metrics.records import ServerCounters
from tests.workers.load.behaviours import BEHAVIOURS
from tests.workers.load.openai_server import serve
from tests.workers.probes.gauges_page import EXPECTED, PAGE
from workers.load.client import Endpoint, open_session
from workers.probes.engine_metrics import GaugeReading, Gauges, parse_counters, parse_gauges, read_counters

METRICS = """\
# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="a } \\"b\\" {"} 120.0
vllm:prompt_tokens_total{engine="1",model_name="a"} 1.5e+06
vllm:generation_tokens_total{engine="0",model_name="a"} 64.0 1763697000000
vllm:generation_tokens_created{engine="0"} 1.7e+09
vllm:spec_decode_num_drafts_total{engine="0"} 10
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 3.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 7.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="2"} 1.0
vllm:num_preemptions_total NaN
vllm:spec_decode_num_draft_tokens_total{engine=0} no number
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 5.0
"""


def test_counters_are_summed_over_their_labels() -> None:
    counters = parse_counters(METRICS)
    assert counters.prompt_tokens == 1_500_120.0
    assert counters.generation_tokens == 64.0
    assert counters.num_drafts == 10.0


def test_positions_are_in_the_order_of_their_numbers() -> None:
    assert parse_counters(METRICS).num_accepted_tokens_per_position == (7.0, 3.0, 1.0)
    eleven = "".join(f'{VLLM.accepted_per_position}{{position="{place}"}} {place}\n' for place in range(11))
    assert parse_counters(eleven).num_accepted_tokens_per_position == tuple(map(float, range(11)))


@pytest.mark.parametrize("labels", ['{pos="1"}', '{position="one"}', '{position="-1"}', '{position="9"}', ""])
def test_a_position_that_is_not_told_leaves_all_positions_unknown(labels: str) -> None:
    page = f"{METRICS}{VLLM.accepted_per_position}{labels} 1.0\n"
    counters = parse_counters(page)
    assert counters.num_accepted_tokens_per_position is None
    assert counters.num_drafts == 10.0


@pytest.mark.parametrize(
    "line",
    [
        'vllm:prompt_tokens_total{engine="2"} NaN',
        'vllm:prompt_tokens_total{engine="2"} +Inf',
        'vllm:prompt_tokens_total{engine="2"} -1',
        'vllm:prompt_tokens_total{engine="2"} 9e307',
        'vllm:prompt_tokens_total{engine="2"} 9007199254740992',
        'vllm:prompt_tokens_total{engine="1",model_name="a"} 1.5e+06',
        "vllm:prompt_tokens_total{engine=2} 1",
        'vllm:prompt_tokens_total{engine="2" 1',
        "vllm:prompt_tokens_total",
    ],
)
def test_a_sum_is_unknown_if_a_part_of_it_cannot_be_believed(line: str) -> None:
    counters = parse_counters(f"{METRICS}{line}\n")
    assert (counters.prompt_tokens, counters.generation_tokens) == (None, 64.0)


def test_positions_that_were_accepted_are_unknown_though_drafted_ones_are_known() -> None:
    names = TENSORRT_LLM.drafted_per_position, TENSORRT_LLM.accepted_per_position
    page = f'{names[0]}{{token_position="0"}} 5\n{names[1]}{{token_position="0"}} NaN\n'
    counters = parse_counters(page, TENSORRT_LLM)
    assert (counters.num_drafts, counters.num_accepted_tokens) == (5.0, None)
    assert counters.num_accepted_tokens_per_position is None


def test_what_is_absent_or_not_a_number_is_unknown() -> None:
    counters = parse_counters(METRICS)
    assert (counters.num_draft_tokens, counters.prefix_cache_hits, counters.num_preemptions) == (None, None, None)
    assert parse_counters("") == ServerCounters()


async def test_counters_are_read_from_a_running_server() -> None:
    async with serve(BEHAVIOURS, METRICS) as server, open_session() as session:
        assert await read_counters(session, server.base_url) == parse_counters(METRICS)


async def test_a_page_without_an_end_is_not_read_to_its_end() -> None:
    async with serve(BEHAVIOURS, "x" * (4 * 2**20 + 1)) as server, open_session() as session:
        with pytest.raises(EngineError, match="the page is longer than 4 MiB"):
            await read_counters(session, server.base_url, required=False)


async def test_a_server_without_metrics_has_unknown_counters() -> None:
    async with serve(BEHAVIOURS) as server, open_session() as session:
        assert await read_counters(session, server.base_url) == ServerCounters()


async def test_a_server_that_is_gone_is_an_error_and_not_zeros(unused_tcp_port: int) -> None:
    async with open_session() as session:
        with pytest.raises(EngineError, match=r"/metrics cannot be read: ClientConnectorError"):
            await read_counters(session, f"http://127.0.0.1:{unused_tcp_port}")


def test_requests_are_summed_and_the_caches_share_is_averaged_over_engines() -> None:
    assert parse_gauges(PAGE, VLLM) == EXPECTED


def test_requests_that_sglang_lists_by_priority_too_are_counted_once() -> None:
    by_rank = [
        f'sglang:num_running_reqs{{dp_rank="{rank}",priority="{priority}"}} {value}\n'
        for rank in (0, 1)
        for priority, value in (("", 3), ("0", 1), ("5", 2))
    ]
    assert parse_gauges("".join(by_rank), SGLANG) == GaugeReading(engine_running=6)


def test_requests_that_each_rank_of_sglang_counts_are_counted_once() -> None:
    """Ranks of context parallelism work on the same requests, those of data parallelism on different ones."""
    ranks = [(dp, tp) for dp in (0, 1) for tp in (2 * dp, 2 * dp + 1)]
    page = "".join(
        f'{name}{{dp_rank="{dp}",tp_rank="{tp}",pp_rank="0",moe_ep_rank="{tp}",priority=""}} {3 + dp}\n'
        for name in ("sglang:num_running_reqs", "sglang:num_retracted_requests_total")
        for dp, tp in ranks
    )
    usage = "".join(f'sglang:token_usage{{tp_rank="{tp}"}} 0.25\n' for tp in range(8))
    assert parse_gauges(page + usage, SGLANG) == GaugeReading(engine_running=7, kv_cache_usage=0.25)
    assert parse_counters(page, SGLANG).num_preemptions == 7.0


def test_what_a_page_does_not_say_is_unknown() -> None:
    assert parse_gauges("vllm:num_requests_running 0.0\n", VLLM) == GaugeReading(engine_running=0)
    assert parse_gauges("", VLLM) == GaugeReading()


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300", "2147483648"])
def test_a_gauge_that_cannot_be_stored_is_unknown(value: str) -> None:
    page = f"vllm:num_requests_running {value}\nvllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc {value}\n"
    assert parse_gauges(page, VLLM) == GaugeReading(engine_waiting=1)


#: Of a real llama.cpp of October 2026 after three requests of 7 prompt tokens, drafting with its small model.
LLAMA_CPP_PAGE = """\
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 9
llamacpp:prompt_tokens_cached_total 12
llamacpp:tokens_predicted_total 44
llamacpp:n_decode_total 16
llamacpp:spec_decode_num_draft_tokens_total 36
llamacpp:spec_decode_num_accepted_tokens_total 28
llamacpp:spec_decode_num_drafts_total 13
llamacpp:requests_processing 2
llamacpp:requests_deferred 1
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 11
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="1"} 11
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="2"} 6
"""


def test_llama_cpp_counts_what_its_cache_served_apart_and_an_older_one_not_at_all() -> None:
    counters = parse_counters(LLAMA_CPP_PAGE, LLAMA_CPP)
    assert counters == ServerCounters(
        generation_tokens=44.0,
        num_drafts=13.0,
        num_draft_tokens=36.0,
        num_accepted_tokens=28.0,
        num_accepted_tokens_per_position=(11.0, 11.0, 6.0),
        prefix_cache_queries=21.0,
        prefix_cache_hits=12.0,
    )
    older = "\n".join(line for line in LLAMA_CPP_PAGE.splitlines() if "cached" not in line)
    of_older = parse_counters(older, LLAMA_CPP)
    assert (of_older.prompt_tokens, of_older.prefix_cache_queries, of_older.prefix_cache_hits) == (None, None, None)
    assert parse_gauges(LLAMA_CPP_PAGE, LLAMA_CPP) == GaugeReading(engine_running=2, engine_waiting=1)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("metrics", [(VLLM,), (SGLANG, VLLM)])
async def test_the_gauges_of_a_running_server_are_read_by_its_names(
    metrics: tuple[Metrics, ...],
) -> None:
    async with serve(BEHAVIOURS, PAGE) as server:
        gauges = Gauges(Endpoint(server.base_url, "m"), metrics)
        assert (await gauges.read(), await gauges.read()) == (EXPECTED, EXPECTED)


@pytest.mark.usefixtures("patient")
async def test_a_server_without_such_a_page_is_asked_once(unused_tcp_port: int) -> None:
    async with serve(BEHAVIOURS) as server:
        gauges = Gauges(Endpoint(server.base_url, "m"), (VLLM,))
        assert await gauges.read() == GaugeReading()
    gauges.endpoint = Endpoint(f"http://127.0.0.1:{unused_tcp_port}", "m")
    assert await gauges.read() == GaugeReading()


@pytest.mark.usefixtures("patient")
async def test_a_server_that_is_gone_says_nothing_and_may_come_back(unused_tcp_port: int) -> None:
    gauges = Gauges(Endpoint(f"http://127.0.0.1:{unused_tcp_port}", "m"), (VLLM,))
    assert await gauges.read() == GaugeReading()
    async with serve(BEHAVIOURS, PAGE) as server:
        gauges.endpoint = Endpoint(server.base_url, "m")
        assert await gauges.read() == EXPECTED


async def test_an_answer_that_does_not_come_in_time_is_not_waited_for(silent_server: str) -> None:
    assert await Gauges(Endpoint(silent_server, "m"), (VLLM,)).read() == GaugeReading()


def test_metrics_are_read_under_the_names_that_older_releases_had() -> None:
    page = """\
vllm:generation_tokens_total 64
vllm:gpu_prefix_cache_queries_total{engine="0"} 100
vllm:gpu_prefix_cache_hits_total{engine="0"} 40
vllm:num_requests_running 2
vllm:gpu_cache_usage_perc 0.25
"""
    counters = parse_counters(page)
    assert (counters.prefix_cache_queries, counters.prefix_cache_hits) == (100, 40)
    assert parse_gauges(page) == GaugeReading(engine_running=2, kv_cache_usage=0.25)


@pytest.mark.parametrize(("more", "hits"), [("97", 100.0), ("x", None), (None, 3.0)])
def test_hits_of_a_second_tier_are_hits_of_the_prefix_cache(more: str | None, hits: float | None) -> None:
    page = "vllm:prefix_cache_queries_total 100\nvllm:prefix_cache_hits_total 3\n"
    tier = "" if more is None else f"vllm:external_prefix_cache_hits_total {more}\n"
    assert parse_counters(page + tier).prefix_cache_hits == hits


def test_todays_names_win_over_former_ones_beside_them() -> None:
    """So releases 0.9.2 to 0.11 publish them."""
    page = """\
vllm:gpu_prefix_cache_queries_total 1
vllm:gpu_prefix_cache_hits_total 1
vllm:prefix_cache_queries_total 100
vllm:prefix_cache_hits_total 40
vllm:gpu_cache_usage_perc 0.9
vllm:kv_cache_usage_perc 0.25
"""
    counters = parse_counters(page)
    assert (counters.prefix_cache_queries, counters.prefix_cache_hits) == (100, 40)
    assert parse_gauges(page).kv_cache_usage == 0.25
