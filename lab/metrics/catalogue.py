"""Every metric declared once: of a run, of its requests and telemetry, of its cost, and of a comparison.

Pages, charts, the command, exports, tables and the data dictionary read labels, units, directions and formats here.
`lab.metrics.measure` computes the numbers, `lab.metrics.latency` those of requests. Unknown is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from lab.metrics import latency
from lab.metrics.definition import Better, Metric
from lab.metrics.latency import Latency
from lab.metrics.records import TelemetrySample, record_fields

_END, _PROMPTS, _TOKENS = ("end_s", "error"), ("prompt_tokens",), ("completion_tokens",)
_COUNTERS = ("counters_before", "counters_after")
_ROUNDS = ("rounds_drafted", "rounds_accepted", "rounds_count")
_RUN_METRICS = (
    Metric(
        "requests_completed", "Requests completed", "requests", "requests without an error", _END, short="Completed"
    ),
    Metric(
        "requests_failed",
        "Requests failed",
        "requests",
        "requests with an error, or without an end",
        _END,
        better="lower",
        short="Failed",
    ),
    Metric(
        "duration_s", "Duration", "s", "window start to the end of the last completed request", _END, short="Window"
    ),
    Metric(
        "prompt_tokens", "Prompt tokens", "tokens", "sum of the server's prompt_tokens of completed requests", _PROMPTS
    ),
    Metric(
        "completion_tokens",
        "Output tokens",
        "tokens",
        "sum of the server's completion_tokens of completed requests",
        _TOKENS,
    ),
    Metric(
        "output_tok_per_s",
        "Output throughput",
        "tok/s",
        "completion_tokens / duration_s",
        (*_TOKENS, *_END),
        better="higher",
        short="Output",
    ),
    Metric(
        "total_tok_per_s",
        "Total throughput",
        "tok/s",
        "(prompt_tokens + completion_tokens) / duration_s",
        (*_PROMPTS, *_TOKENS, *_END),
        better="higher",
        short="Total",
    ),
    Metric(
        "request_per_s",
        "Request throughput",
        "requests/s",
        "requests_completed / duration_s",
        _END,
        better="higher",
        short="Completed",
    ),
    Metric(
        "goodput_request_per_s",
        "Goodput",
        "requests/s",
        "completed requests that meet every bound of the study's SLO / duration_s; null without an SLO",
        ("slo", *_END),
        better="higher",
    ),
    Metric(
        "requests_within_slo",
        "Requests within the SLO",
        "requests",
        "completed requests that meet every bound of the study's SLO; in a search for a capacity, latencies count from "
        "the intended send; null without an SLO",
        ("slo", *_END),
        better="higher",
        short="Within SLO",
    ),
    Metric(
        "goodput_tok_per_s",
        "Output throughput within the SLO",
        "tok/s",
        "output tokens of the requests within the SLO / duration_s; null without an SLO",
        ("slo", *_TOKENS, *_END),
        better="higher",
        short="Output within SLO",
    ),
    Metric(
        "num_drafts", "Draft rounds", "rounds", "verification rounds in the measured window (after - before)", _COUNTERS
    ),
    Metric("num_draft_tokens", "Drafted tokens", "tokens", "tokens drafted in the window (after - before)", _COUNTERS),
    Metric("num_accepted_tokens", "Accepted tokens", "tokens", "drafted tokens accepted (after - before)", _COUNTERS),
    Metric(
        "acceptance_rate",
        "Acceptance rate",
        "fraction",
        "num_accepted_tokens / num_draft_tokens",
        _COUNTERS,
        better="higher",
        short="Accepted",
    ),
    Metric(
        "acceptance_length",
        "Acceptance length",
        "tokens/round",
        "1 + num_accepted_tokens / num_drafts: the bonus token counts",
        _COUNTERS,
        better="higher",
        short="Tokens per round",
    ),
    Metric(
        "acceptance_per_position",
        "Acceptance by position",
        "fraction",
        "element i: share of rounds whose first i drafted tokens were all accepted (not conditional on i - 1)",
        _COUNTERS,
        better="higher",
    ),
    Metric(
        "draft_length_mean",
        "Drafted tokens per round",
        "tokens/round",
        "num_draft_tokens / num_drafts: below k where drafts differ in length",
        _COUNTERS,
        short="Drafted per round",
    ),
    Metric(
        "num_verified_tokens",
        "Verified tokens",
        "tokens",
        "num_draft_tokens + num_drafts: what the target computed to check the drafts, its own token of each round "
        "included",
        _COUNTERS,
    ),
    Metric(
        "num_wasted_tokens",
        "Wasted tokens",
        "tokens",
        "num_draft_tokens - num_accepted_tokens: drafted, verified and thrown away",
        _COUNTERS,
        better="lower",
    ),
    Metric(
        "num_forbidden_draft_tokens",
        "Forbidden draft tokens",
        "tokens",
        "drafted tokens that a grammar (json_schema) forbade, at least, and that are in no other count: "
        "num_speculative_tokens x steps - num_draft_tokens, where steps = server_generation_tokens - "
        "requests_completed - num_accepted_tokens, or num_drafts if that is more; null without a grammar, where a "
        "request failed, and for methods that do not draft as many tokens at every step",
        (*_COUNTERS, "workload", "error"),
        better="lower",
    ),
    Metric(
        "wasted_share",
        "Wasted share",
        "fraction",
        "num_wasted_tokens / num_draft_tokens",
        _COUNTERS,
        better="lower",
        short="Wasted",
    ),
    Metric(
        "rounds_by_draft_length",
        "Rounds by draft length",
        "fraction",
        "element i: share of the completed requests' rounds that drafted i - 1 tokens",
        _ROUNDS,
    ),
    Metric(
        "acceptance_of_drafted_position",
        "Acceptance by position that was drafted",
        "fraction",
        "element i: of the completed requests' rounds that drafted i tokens or more, the share whose first i were all "
        "accepted; unlike acceptance_per_position it does not fall because drafts were shorter",
        _ROUNDS,
        better="higher",
    ),
    Metric(
        "reasoning_tokens",
        "Reasoning tokens",
        "tokens",
        "sum of the tokens before the answer, over completed requests; null if one cannot be told",
        ("reasoning_tokens",),
    ),
    Metric(
        "answer_tokens",
        "Answer tokens",
        "tokens",
        "completion_tokens - reasoning_tokens",
        (*_TOKENS, "reasoning_tokens"),
    ),
    Metric(
        "answer_tok_per_s",
        "Answer throughput",
        "tok/s",
        "answer_tokens / duration_s",
        (*_TOKENS, "reasoning_tokens", *_END),
        better="higher",
        short="Answer",
    ),
    *(
        Metric(
            f"{part}_acceptance_length",
            f"Acceptance length of the {part}",
            "tokens/round",
            f"1 + accepted tokens / rounds, of the rounds that began {when} the answer, over completed requests; null "
            "if nothing was reasoned, or the rounds of one request are unknown",
            ("reasoning_rounds", "reasoning_accepted_tokens", "spec_drafts", "spec_accepted_tokens"),
            better="higher",
        )
        for part, when in (("reasoning", "before"), ("answer", "in"))
    ),
    *(
        Metric(
            f"{part}_tokens_per_chunk",
            f"Tokens per chunk of the {part}",
            "tokens/round",
            f"tokens of the {part} / chunks that brought them, without each answer's first chunk: where the server "
            "streams every round, the acceptance length there; null if nothing was reasoned",
            ("reasoning_tokens", "first_answer_s", "chunk_s", "chunk_tokens"),
        )
        for part in ("reasoning", "answer")
    ),
    *(
        Metric(
            f"ttfa_p{percentile}_ms",
            f"Time to first answer token p{percentile}",
            "ms",
            f"{percentile}th percentile (linear) of the time to the first output that is not reasoning: "
            "first_answer - sent, one value per completed request that came to its answer",
            ("sent_s", "first_answer_s"),
            better="lower",
            short=f"TTFA p{percentile}",
        )
        for percentile in (50, 95)
    ),
    Metric(
        "requests_scored", "Requests scored", "requests", "completed requests whose answer has a score", ("workload",)
    ),
    Metric(
        "task_score",
        "Task score",
        "fraction",
        "mean score of the answers: 1 right, 0 wrong, by the workload's `score`",
        ("workload", "output_text", "expected"),
        better="higher",
        short="Score",
    ),
    Metric(
        "prefix_cache_hit_rate",
        "Prefix-cache hits",
        "fraction",
        "prefix-cache hits / queries in the window, in tokens",
        _COUNTERS,
    ),
    Metric(
        "server_generation_tokens",
        "Output tokens by the server's count",
        "tokens",
        "tokens the server itself counted in the window (after - before)",
        _COUNTERS,
    ),
)
_BUSY = "at least half of a closed loop's streams had a request on their way"
_STEADY_METRICS = (
    Metric(
        "steady_window_s",
        "Steady window",
        "s",
        f"from the first to the last moment at which {_BUSY}; not beyond duration_s, and null under a rate",
        ("sent_s", "end_s", "load"),
    ),
    Metric(
        "steady_output_tok_per_s",
        "Steady output throughput",
        "tok/s",
        "tokens of completed requests that arrived within steady_window_s / steady_window_s; null where it is unknown "
        "how many tokens of a request did: it crosses a border and chunk_tokens is null",
        ("sent_s", "end_s", "load", "chunk_s", "chunk_tokens", "completion_tokens"),
        better="higher",
        short="Steady output",
    ),
)
#: Latencies of single requests, chunks or tokens by the beginning of their columns' names.
LATENCIES: Mapping[str, Latency] = {
    metric.name: metric
    for metric in (
        Latency(
            "ttft",
            "Time to first token",
            "ms",
            "time to first token: first_token_s - sent_s",
            ("sent_s", "first_token_s"),
            better="lower",
            short="TTFT",
            each="completed request that gave a token",
            compute=latency.ttft_ms,
        ),
        Latency(
            "tpot",
            "Time per output token",
            "ms",
            "time per output token: (last of chunk_s - first_token_s) / (completion_tokens - 1)",
            ("first_token_s", "chunk_s", "completion_tokens"),
            better="lower",
            short="TPOT",
            each="completed request of at least 2 tokens",
            compute=latency.tpot_ms,
        ),
        Latency(
            "itl",
            "Inter-token latency",
            "ms",
            "inter-token latency: a chunk's gap divided evenly over the tokens of that chunk",
            ("chunk_s", "chunk_tokens"),
            better="lower",
            short="ITL",
            each="token",
            compute=latency.itl_ms,
        ),
        Latency(
            "icl",
            "Inter-chunk latency",
            "ms",
            "inter-chunk latency: the gap between two chunks",
            ("chunk_s",),
            better="lower",
            short="ICL",
            each="gap; a chunk may hold several tokens, so this is no token latency",
            compute=latency.icl_ms,
        ),
        Latency(
            "e2e",
            "Request latency",
            "ms",
            "end-to-end latency: end_s - sent_s",
            ("sent_s", "end_s"),
            better="lower",
            short="E2E",
            each="completed request",
            compute=latency.e2e_ms,
        ),
    )
}
#: The statistics of each latency that a run has, and what they are.
STATISTICS: Mapping[str, str] = {"mean": "mean", **{f"p{q}": f"{q}th percentile (linear)" for q in (50, 90, 95, 99)}}
_LATENCY_METRICS = tuple(
    Metric(
        f"{of.name}_{statistic}_ms",
        f"{of.label} {statistic}",
        of.unit,
        f"{words} of {of.values}",
        of.needs,
        better=of.better,
        short=f"{of.short} {statistic}",
    )
    for of in LATENCIES.values()
    for statistic, words in STATISTICS.items()
)
_POWER = ("gpu_power_w",)
_PROBED = "of the engine's GPUs, over the measured window"
_TELEMETRY_METRICS = (
    Metric(
        "energy_j",
        "GPU energy",
        "J",
        "gpu_power_w integrated over the measured window by the trapezoidal rule; null where a sample has none",
        _POWER,
        better="lower",
        short="Energy",
    ),
    Metric(
        "energy_j_per_output_token",
        "Energy per output token",
        "J/token",
        "energy_j / completion_tokens",
        (*_POWER, "completion_tokens"),
        better="lower",
        short="Energy",
    ),
    Metric(
        "gpu_power_mean_w",
        "GPU power, mean",
        "W",
        f"mean power {_PROBED}, all together",
        _POWER,
        better="lower",
        short="GPU power",
    ),
    Metric(
        "gpu_utilisation_mean_percent",
        "GPU utilisation, mean",
        "percent",
        f"mean share of the time that they computed, {_PROBED}",
        ("gpu_utilisation_percent",),
        short="GPU use",
    ),
    Metric(
        "gpu_memory_used_max_bytes",
        "GPU memory, peak",
        "bytes",
        f"most memory in use {_PROBED}, all together",
        ("gpu_memory_used_bytes",),
        better="lower",
        short="GPU memory",
    ),
    Metric(
        "gpu_sm_clock_mean_mhz",
        "GPU clock, mean",
        "MHz",
        f"mean clock of the slowest {_PROBED}",
        ("gpu_sm_clock_mhz",),
        short="GPU clock",
    ),
    Metric(
        "gpu_memory_clock_mean_mhz",
        "GPU memory clock, mean",
        "MHz",
        f"mean memory clock of the slowest {_PROBED}",
        ("gpu_memory_clock_mhz",),
        short="GPU memory clock",
    ),
    Metric(
        "gpu_temperature_mean_c",
        "GPU temperature, mean",
        "°C",
        f"mean of the hottest {_PROBED}",
        ("gpu_temperature_c",),
        short="GPU, mean",
    ),
    Metric(
        "gpu_temperature_max_c",
        "GPU temperature, peak",
        "°C",
        f"most of the hottest {_PROBED}",
        ("gpu_temperature_c",),
        short="GPU",
    ),
    Metric(
        "gpu_throttled_share",
        "GPU throttled",
        "fraction",
        f"share of the samples in which power, heat or the board held back the clocks {_PROBED}",
        ("gpu_throttle_reasons",),
        better="lower",
    ),
    Metric(
        "kv_cache_usage_max",
        "KV cache in use, peak",
        "fraction",
        "most of the engine's KV cache in use",
        ("kv_cache_usage",),
        short="KV cache",
    ),
    Metric(
        "engine_running_mean",
        "Requests running, mean",
        "requests",
        "mean requests the engine worked on",
        ("engine_running",),
        spec=",.1f",
    ),
    Metric(
        "engine_waiting_mean",
        "Requests waiting, mean",
        "requests",
        "mean requests in the engine's queue",
        ("engine_waiting",),
        better="lower",
        spec=",.1f",
    ),
    Metric(
        "engine_waiting_max",
        "Requests waiting, peak",
        "requests",
        "most requests in the engine's queue",
        ("engine_waiting",),
        better="lower",
    ),
    Metric(
        "host_cpu_mean_percent",
        "Host CPU, mean",
        "percent",
        "mean use of all processors of the client's host",
        ("host_cpu_percent",),
        short="Host CPU",
    ),
    Metric(
        "host_memory_used_max_bytes",
        "Host memory, peak",
        "bytes",
        "most memory in use on the client's host",
        ("host_memory_used_bytes",),
        short="Host memory",
    ),
)

#: Every number of a run that is stored, in the order of the columns.
METRICS: tuple[Metric, ...] = (*_RUN_METRICS, *_STEADY_METRICS, *_LATENCY_METRICS, *_TELEMETRY_METRICS)

PER_USER = Metric(
    "tok_per_s_per_user",
    "Throughput per user",
    "tok/s/user",
    "1000 / TPOT p50, in ms: what one reader sees",
    better="higher",
)
PER_GPU = Metric(
    "tok_per_s_per_gpu",
    "Throughput per GPU",
    "tok/s/GPU",
    "output throughput / number of GPUs; null where that is unknown",
    better="higher",
)
#: Numbers that follow from those of a run and are not stored.
DERIVED: tuple[Metric, ...] = (PER_USER, PER_GPU)

_HOUR = "price of an hour / 3600"
COST = Metric(
    "cost_per_million_output_tokens",
    "Cost per million output tokens",
    "currency/10^6 output tokens",
    f"{_HOUR} / output_tok_per_s x 10^6; null where no price is recorded",
    better="lower",
    short="Per 10⁶ output tokens",
)
COST_WITH_START_UP = Metric(
    "cost_per_million_output_tokens_with_start_up",
    "Cost per million output tokens, with start-up",
    "currency/10^6 output tokens",
    f"{_HOUR} x (windows + each window's part of its engine's start) / their output tokens x 10^6",
    better="lower",
    short="With start-up",
)
COST_OF_ANSWER = Metric(
    "cost_per_million_answer_tokens",
    "Cost per million answer tokens",
    "currency/10^6 answer tokens",
    f"{_HOUR} / answer_tok_per_s x 10^6: reasoning is paid for but not read",
    better="lower",
    short="Per 10⁶ answer tokens",
)
COST_OF_ALL_TOKENS = Metric(
    "cost_per_million_tokens",
    "Cost per million tokens, input and output",
    "currency/10^6 tokens",
    f"{_HOUR} / total_tok_per_s x 10^6",
    better="lower",
    short="Per 10⁶ tokens",
)
COST_WITHIN_SLO = Metric(
    "cost_per_million_output_tokens_within_slo",
    "Cost per million output tokens within the SLO",
    "currency/10^6 output tokens",
    f"{_HOUR} / goodput_tok_per_s x 10^6: the others are paid for but no use",
    better="lower",
    short="Per 10⁶ within the SLO",
)
COST_PER_REQUEST = Metric(
    "cost_per_request",
    "Cost per request",
    "currency/request",
    f"{_HOUR} / request_per_s",
    better="lower",
    short="Per request",
)
ELECTRICITY = Metric(
    "electricity_per_million_output_tokens",
    "Electricity per million output tokens",
    "currency/10^6 output tokens",
    "kWh per million output tokens x price of a kWh; of the GPUs alone",
    better="lower",
    short="Electricity per 10⁶",
)
ENERGY = Metric(
    "kwh_per_million_output_tokens",
    "Energy per million output tokens",
    "kWh",
    "energy_j_per_output_token x 10^6 / 3.6e6",
    better="lower",
    short="Energy per 10⁶ output tokens",
)
SAVING = Metric("saving", "Saving", "fraction", "share of the baseline's cost; below 0 it costs more", better="higher")
WITHIN_SLO = Metric(
    "within_slo",
    "Within the SLO",
    "fraction",
    "requests that meet every bound of the SLO / requests sent; failed ones do not meet it",
    better="higher",
    short="Within SLO",
)
#: What runs cost. The currency is that of the price, so `currency` in a unit stands for it.
COSTS: tuple[Metric, ...] = (
    COST,
    COST_WITH_START_UP,
    COST_OF_ANSWER,
    COST_OF_ALL_TOKENS,
    COST_WITHIN_SLO,
    COST_PER_REQUEST,
    ELECTRICITY,
    ENERGY,
    SAVING,
    WITHIN_SLO,
)
_CARRIED = "greatest {} at which the required share of requests meets the study's SLO, as a search found it"
CAPACITY = Metric(
    "capacity_request_per_s",
    "Capacity within the SLO",
    "requests/s",
    _CARRIED.format("request rate"),
    better="higher",
    short="Capacity",
)
CAPACITY_CONCURRENCY = Metric(
    "capacity_concurrency",
    "Capacity within the SLO, at once",
    "requests",
    _CARRIED.format("concurrency"),
    better="higher",
    short="Capacity at once",
)
COST_AT_CAPACITY = Metric(
    "cost_per_million_output_tokens_at_capacity",
    "Cost per million output tokens within the SLO, at the capacity",
    "currency/10^6 output tokens",
    f"{_HOUR} / output tokens a second of the requests within the SLO at the capacity x 10^6",
    better="lower",
    short="Per 10⁶ at capacity",
)
#: What a search for a capacity gives: of an arm, workload and repeat, not of a run.
CAPACITIES: tuple[Metric, ...] = (CAPACITY, CAPACITY_CONCURRENCY, COST_AT_CAPACITY)
#: The ratio of a candidate to the baseline, of any metric; `Metric.ratio_label` says what it is called.
RATIO = Metric("ratio", "Speed-up", "×", "candidate / baseline, geometric mean over the repeats")


def _sampled(name: str, label: str, better: Better | Literal["neither"] = "neither") -> Metric:
    declared = record_fields(TelemetrySample)[name]
    return Metric(name, label, declared.unit or "", declared.comment, better=better)


#: What each second of telemetry shows: fields of TelemetrySample, which declares their units and meanings.
SAMPLED: tuple[Metric, ...] = (
    _sampled("requests_in_flight", "Requests in flight"),
    _sampled("engine_running", "Running in the engine"),
    _sampled("engine_waiting", "Waiting in the engine", "lower"),
    _sampled("kv_cache_usage", "KV cache in use"),
    _sampled("host_cpu_percent", "Host CPU"),
    _sampled("loop_lag_ms", "Client loop lag", "lower"),
    _sampled("gpu_utilisation_percent", "GPU utilisation"),
    _sampled("gpu_power_w", "GPU power", "lower"),
    _sampled("gpu_sm_clock_mhz", "GPU clock"),
    _sampled("gpu_temperature_c", "GPU temperature"),
    _sampled("gpu_memory_used_bytes", "GPU memory", "lower"),
    _sampled("gpu_other_processes", "Other processes on the GPUs", "lower"),
)

#: Metrics of a run by name, whether stored or derived.
BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in (*METRICS, *DERIVED, *COSTS, *CAPACITIES)}
#: What people call the metrics that they compare most.
SHORT_NAMES: Mapping[str, str] = {
    "throughput": "output_tok_per_s",
    "ttft": "ttft_p50_ms",
    "tpot": "tpot_p50_ms",
    "e2e": "e2e_p50_ms",
    "acceptance": "acceptance_length",
    "cost": "cost_per_million_output_tokens",
    "energy": "energy_j_per_output_token",
    "capacity": "capacity_request_per_s",
}


def better(name: str) -> Better:
    """Return which direction of a metric is better. Raises ValueError for one that has no better direction."""
    metric = BY_NAME.get(name)
    if metric is None or metric.better == "neither":
        raise ValueError(f"{name} has no better direction, so no arm is faster or slower by it")
    return metric.better
