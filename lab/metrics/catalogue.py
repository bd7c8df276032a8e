"""Every metric declared once: of a run, of its requests and telemetry, of its cost, and of a comparison.

Pages, charts, the command, exports, tables and the data dictionary read labels, units, directions and formats here.
`compute` says how a number is computed from the data of a run, or of its requests. Unknown is None, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from lab.metrics import latency, run_data, telemetry
from lab.metrics.definition import Better, Metric
from lab.metrics.latency import PERCENTILES, Latency
from lab.metrics.records import TelemetrySample, record_fields
from lab.metrics.run_data import RunMetric, growth_of, mean_of, most_of, of, quotient, statistic, sum_of

_RUN_METRICS = (
    RunMetric(
        "requests_completed",
        "Requests completed",
        "requests",
        "requests without an error",
        short="Completed",
        compute=lambda data: len(data.completed),
        of_failed=True,
    ),
    RunMetric(
        "requests_failed",
        "Requests failed",
        "requests",
        "requests with an error or without an end",
        better="lower",
        short="Failed",
        compute=lambda data: len(data.requests) - len(data.completed),
        of_failed=True,
    ),
    RunMetric(
        "duration_s",
        "Duration",
        "s",
        "window start to the end of the last completed request",
        short="Window",
        compute=run_data.duration_s,
    ),
    RunMetric(
        "prompt_tokens",
        "Prompt tokens",
        "tokens",
        "sum over completed requests",
        compute=sum_of("prompt_tokens"),
    ),
    RunMetric(
        "completion_tokens",
        "Output tokens",
        "tokens",
        "sum over completed requests",
        compute=sum_of("completion_tokens"),
    ),
    RunMetric(
        "output_tok_per_s",
        "Output throughput",
        "tok/s",
        "completion_tokens / duration_s; of a run in rounds steady_output_tok_per_s",
        better="higher",
        short="Output",
        compute=run_data.output_tokens_per_s,
    ),
    RunMetric(
        "total_tok_per_s",
        "Total throughput",
        "tok/s",
        "(prompt_tokens + completion_tokens) / duration_s",
        better="higher",
        short="Total",
        compute=of(
            lambda prompt, output, seconds: (prompt + output) / seconds,
            "prompt_tokens",
            "completion_tokens",
            "duration_s",
        ),
    ),
    RunMetric(
        "request_per_s",
        "Request throughput",
        "requests/s",
        "requests_completed / duration_s",
        better="higher",
        short="Completed",
        compute=quotient("requests_completed", "duration_s"),
    ),
    RunMetric(
        "goodput_request_per_s",
        "Goodput",
        "requests/s",
        "requests_within_slo / duration_s",
        better="higher",
        compute=quotient("requests_within_slo", "duration_s"),
    ),
    RunMetric(
        "requests_within_slo",
        "Requests within the SLO",
        "requests",
        "completed requests that meet the SLO; in a capacity search from the intended send; null without an SLO",
        better="higher",
        short="Within SLO",
        compute=lambda data: None if data.within_slo is None else int(data.within_slo.sum()),
    ),
    RunMetric(
        "goodput_tok_per_s",
        "Output throughput within the SLO",
        "tok/s",
        "output tokens of requests within the SLO / duration_s",
        better="higher",
        short="Output within SLO",
        compute=run_data.tokens_per_s_within_slo,
    ),
    RunMetric(
        "num_drafts",
        "Draft rounds",
        "rounds",
        "rounds in the window, by the counters",
        compute=growth_of("num_drafts"),
    ),
    RunMetric(
        "num_draft_tokens",
        "Drafted tokens",
        "tokens",
        "tokens drafted in them",
        compute=growth_of("num_draft_tokens"),
    ),
    RunMetric(
        "num_accepted_tokens",
        "Accepted tokens",
        "tokens",
        "drafted tokens accepted in them",
        compute=growth_of("num_accepted_tokens"),
        of_text=True,
    ),
    RunMetric(
        "acceptance_rate",
        "Acceptance rate",
        "fraction",
        "num_accepted_tokens / num_draft_tokens",
        better="higher",
        short="Accepted",
        compute=quotient("num_accepted_tokens", "num_draft_tokens"),
        of_text=True,
    ),
    RunMetric(
        "acceptance_length",
        "Acceptance length",
        "tokens/round",
        "1 + num_accepted_tokens / num_drafts",
        better="higher",
        short="Tokens per round",
        compute=of(lambda accepted, rounds: 1 + accepted / rounds, "num_accepted_tokens", "num_drafts"),
        of_text=True,
    ),
    RunMetric(
        "acceptance_per_position",
        "Acceptance by position",
        "fraction",
        "element i: share of rounds whose first i drafted tokens were all accepted",
        better="higher",
        compute=run_data.acceptance_per_position,
        of_text=True,
        has_several=True,
    ),
    RunMetric(
        "draft_length_mean",
        "Drafted tokens per round",
        "tokens/round",
        "num_draft_tokens / num_drafts",
        short="Drafted per round",
        compute=quotient("num_draft_tokens", "num_drafts"),
    ),
    RunMetric(
        "num_verified_tokens",
        "Verified tokens",
        "tokens",
        "num_draft_tokens + num_drafts: what the target verified",
        compute=of(lambda drafted, rounds: drafted + rounds, "num_draft_tokens", "num_drafts"),
    ),
    RunMetric(
        "num_wasted_tokens",
        "Wasted tokens",
        "tokens",
        "num_draft_tokens - num_accepted_tokens",
        better="lower",
        compute=of(lambda drafted, accepted: drafted - accepted, "num_draft_tokens", "num_accepted_tokens"),
        of_text=True,
    ),
    RunMetric(
        "num_forbidden_draft_tokens",
        "Forbidden draft tokens",
        "tokens",
        "tokens that a grammar forbade, at least; in no other count: num_speculative_tokens x steps - "
        "num_draft_tokens, with steps = server_generation_tokens - requests_completed - num_accepted_tokens, or "
        "num_drafts if more; null without a grammar, with failed requests, and for methods that draft unevenly",
        better="lower",
        compute=run_data.forbidden_draft_tokens,
    ),
    RunMetric(
        "wasted_share",
        "Wasted share",
        "fraction",
        "num_wasted_tokens / num_draft_tokens",
        better="lower",
        short="Wasted",
        compute=quotient("num_wasted_tokens", "num_draft_tokens"),
        of_text=True,
    ),
    RunMetric(
        "rounds_by_draft_length",
        "Rounds by draft length",
        "fraction",
        "element i: share of rounds that drafted i - 1 tokens",
        compute=run_data.rounds_by_draft_length,
        has_several=True,
    ),
    RunMetric(
        "acceptance_of_drafted_position",
        "Acceptance by position that was drafted",
        "fraction",
        "as acceptance_per_position, but only of rounds that drafted i tokens or more",
        better="higher",
        compute=run_data.acceptance_of_drafted_position,
        of_text=True,
        has_several=True,
    ),
    RunMetric(
        "reasoning_tokens",
        "Reasoning tokens",
        "tokens",
        "sum over completed requests",
        compute=run_data.reasoning_tokens,
    ),
    RunMetric(
        "answer_tokens",
        "Answer tokens",
        "tokens",
        "completion_tokens - reasoning_tokens, if not negative",
        compute=run_data.answer_tokens,
    ),
    RunMetric(
        "answer_tok_per_s",
        "Answer throughput",
        "tok/s",
        "answer_tokens / duration_s",
        better="higher",
        short="Answer",
        compute=quotient("answer_tokens", "duration_s"),
    ),
    *(
        RunMetric(
            f"{part}_acceptance_length",
            f"Acceptance length of the {part}",
            "tokens/round",
            "acceptance_length of the rounds that began in that part; null without reasoning",
            better="higher",
            compute=run_data.acceptance_length_of(part),
            of_text=True,
        )
        for part in ("reasoning", "answer")
    ),
    *(
        RunMetric(
            f"{part}_tokens_per_chunk",
            f"Tokens per chunk of the {part}",
            "tokens/round",
            "tokens / chunks of that part, without each answer's first chunk: its acceptance length if the server "
            "streams every round; null without reasoning",
            compute=run_data.tokens_per_chunk_of(part),
        )
        for part in ("reasoning", "answer")
    ),
    *(
        RunMetric(
            f"ttfa_p{percentile}_ms",
            f"Time to first answer token p{percentile}",
            "ms",
            f"{percentile}th percentile (linear) of the time from sending to the first output after the "
            "reasoning, one value per completed request with an answer",
            better="lower",
            short=f"TTFA p{percentile}",
            compute=run_data.first_answer_ms(percentile),
        )
        for percentile in (50, 95)
    ),
    RunMetric(
        "requests_scored",
        "Requests scored",
        "requests",
        "completed requests with a score",
        compute=run_data.requests_scored,
    ),
    RunMetric(
        "task_score",
        "Task score",
        "fraction",
        "mean score of the answers, 0 to 1",
        better="higher",
        short="Score",
        compute=run_data.task_score,
    ),
    RunMetric(
        "prefix_cache_hit_rate",
        "Prefix-cache hits",
        "fraction",
        "prefix-cache hits / queries in tokens, by the counters or else by the answers",
        compute=run_data.prefix_cache_hit_rate,
    ),
    RunMetric(
        "server_generation_tokens",
        "Output tokens by the server's count",
        "tokens",
        "tokens by the server's counter",
        compute=growth_of("generation_tokens"),
    ),
)
_STEADY_METRICS = (
    RunMetric(
        "steady_window_s",
        "Steady window",
        "s",
        "while all streams of a closed loop had a request in flight; of a run in rounds the sum of its windows",
        compute=run_data.steady_window_s,
    ),
    RunMetric(
        "steady_output_tok_per_s",
        "Steady output throughput",
        "tok/s",
        "tokens that arrived within steady_window_s / steady_window_s",
        better="higher",
        short="Steady output",
        compute=run_data.steady_tokens_per_s,
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
            better="lower",
            short="TPOT",
            each="completed request of at least 2 tokens",
            compute=latency.tpot_ms,
            counts_tokens=True,
        ),
        Latency(
            "itl",
            "Inter-token latency",
            "ms",
            "inter-token latency: a chunk's gap divided evenly over the tokens of that chunk",
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
            better="lower",
            short="ICL",
            each="gap, not per token",
            compute=latency.icl_ms,
        ),
        Latency(
            "e2e",
            "Request latency",
            "ms",
            "end-to-end latency: end_s - sent_s",
            better="lower",
            short="E2E",
            each="completed request",
            compute=latency.e2e_ms,
        ),
    )
}
#: The statistics of each latency that a run has, and what they are.
STATISTICS: Mapping[str, str] = {"mean": "mean", **{f"p{q}": f"{q}th percentile (linear)" for q in PERCENTILES}}
_LATENCY_METRICS = tuple(
    RunMetric(
        f"{each.name}_{kind}_ms",
        f"{each.label} {kind}",
        each.unit,
        f"{words} of {each.values}",
        better=each.better,
        short=f"{each.short} {kind}",
        compute=statistic(f"{each.name}_{kind}_ms"),
    )
    for each in LATENCIES.values()
    for kind, words in STATISTICS.items()
)
_TELEMETRY_METRICS = (
    RunMetric(
        "energy_j",
        "GPU energy",
        "J",
        "gpu_power_w integrated over the window",
        better="lower",
        short="Energy",
        compute=lambda data: telemetry.energy_j(data.samples),
    ),
    RunMetric(
        "energy_j_per_output_token",
        "Energy per output token",
        "J/token",
        "energy_j / completion_tokens",
        better="lower",
        short="Energy",
        compute=quotient("energy_j", "completion_tokens"),
    ),
    RunMetric(
        "gpu_power_mean_w",
        "GPU power, mean",
        "W",
        "of all of the engine's GPUs",
        better="lower",
        short="GPU power",
        compute=mean_of("gpu_power_w"),
    ),
    RunMetric(
        "gpu_utilisation_mean_percent",
        "GPU utilisation, mean",
        "percent",
        "mean of the engine's GPUs",
        short="GPU use",
        compute=mean_of("gpu_utilisation_percent"),
    ),
    RunMetric(
        "gpu_memory_used_max_bytes",
        "GPU memory, peak",
        "bytes",
        "of all of the engine's GPUs",
        better="lower",
        short="GPU memory",
        compute=most_of("gpu_memory_used_bytes"),
    ),
    RunMetric(
        "gpu_sm_clock_mean_mhz",
        "GPU clock, mean",
        "MHz",
        "of the slowest of the engine's GPUs",
        short="GPU clock",
        compute=mean_of("gpu_sm_clock_mhz"),
    ),
    RunMetric(
        "gpu_memory_clock_mean_mhz",
        "GPU memory clock, mean",
        "MHz",
        "of the slowest of the engine's GPUs",
        short="GPU memory clock",
        compute=mean_of("gpu_memory_clock_mhz"),
    ),
    RunMetric(
        "gpu_temperature_mean_c",
        "GPU temperature, mean",
        "°C",
        "of the hottest of the engine's GPUs",
        short="GPU, mean",
        compute=mean_of("gpu_temperature_c"),
    ),
    RunMetric(
        "gpu_temperature_max_c",
        "GPU temperature, peak",
        "°C",
        "of the hottest of the engine's GPUs",
        short="GPU",
        compute=most_of("gpu_temperature_c"),
    ),
    RunMetric(
        "gpu_throttled_share",
        "GPU throttled",
        "fraction",
        "share of samples in which power, heat or the board reduced clocks",
        better="lower",
        compute=lambda data: telemetry.throttled_share(data.samples),
    ),
    RunMetric(
        "kv_cache_usage_max",
        "KV cache in use, peak",
        "fraction",
        "most in use",
        short="KV cache",
        compute=most_of("kv_cache_usage"),
    ),
    RunMetric(
        "engine_running_mean",
        "Requests running, mean",
        "requests",
        "requests the engine worked on",
        spec=",.1f",
        compute=mean_of("engine_running"),
    ),
    RunMetric(
        "engine_waiting_mean",
        "Requests waiting, mean",
        "requests",
        "requests in the engine's queue",
        better="lower",
        spec=",.1f",
        compute=mean_of("engine_waiting"),
    ),
    RunMetric(
        "engine_waiting_max",
        "Requests waiting, peak",
        "requests",
        "requests in the engine's queue",
        better="lower",
        compute=most_of("engine_waiting"),
    ),
    RunMetric(
        "host_cpu_mean_percent",
        "Host CPU, mean",
        "percent",
        "mean use of the client's host",
        short="Host CPU",
        compute=mean_of("host_cpu_percent"),
    ),
    RunMetric(
        "other_cpu_percent",
        "CPU of other programs, mean",
        "percent",
        "mean share of its processors that other programs took",
        better="lower",
        short="Others' CPU",
        compute=mean_of("other_cpu_percent"),
    ),
    RunMetric(
        "host_memory_used_max_bytes",
        "Host memory, peak",
        "bytes",
        "most in use on the client's host",
        short="Host memory",
        compute=most_of("host_memory_used_bytes"),
    ),
)

#: Every number of a run that is stored, in the order of the columns.
METRICS: tuple[RunMetric, ...] = (*_RUN_METRICS, *_STEADY_METRICS, *_LATENCY_METRICS, *_TELEMETRY_METRICS)

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
    _sampled("other_cpu_percent", "CPU of other programs", "lower"),
    _sampled("run_queue", "Threads that want a processor", "lower"),
    _sampled("memory_pressure_percent", "Memory pressure", "lower"),
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
    """Return which direction of a metric is better. Raises ValueError for a metric that has no better direction."""
    metric = BY_NAME.get(name)
    if metric is None or metric.better == "neither":
        raise ValueError(f"{name} has no better direction, so no arm is faster or slower by it")
    return metric.better
