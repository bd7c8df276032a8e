"""The columns of `request_records` and `telemetry`: each reads from a RequestRecord or a TelemetrySample.

`run_id` stands before them; the ingester adds it. What a file of another tool may not tell of a request can be null.
"""

from __future__ import annotations

from lab.metrics import latency
from warehouse.schema.column import Column, column

_RECORDED = (
    column("index", "int", "place in the order of sending, from 0"),
    column("prompt_id", "text?", "the same prompt has the same id in every arm"),
    column("category", "text?", "kind of text"),
    column("prompt", "text?", "what was sent"),
    column("requested_output_tokens", "int?", "tokens that it may generate at most"),
    column(
        "intended_send_s", "double?", "when the load asked for it; seconds since the window began, as all times here"
    ),
    column("sent_s", "double?", "when it left the client"),
    column("first_token_s", "double?", "when the first output arrived"),
    column("end_s", "double?", "last byte, or the moment of failure"),
    column("chunk_s", "doubles?", "arrival of each streamed chunk that carried output"),
    column("chunk_tokens", "ints?", "tokens in each of those chunks; null where the server does not count them"),
    column("prompt_tokens", "int?", "from the server's usage"),
    column("completion_tokens", "int?", "from the server's usage"),
    column("finish_reason", "text?", "why the output ended, in the server's words"),
    column("error", "text?", "why the request failed; null where it did not"),
    column("output_text", "text?", "what came back"),
    column("spec_drafts", "int?", "verification rounds of this request, as the server says"),
    column("spec_draft_tokens", "int?", "tokens drafted for this request"),
    column("spec_accepted_tokens", "int?", "drafted tokens accepted for this request"),
    column(
        "sent_prompt_tokens",
        "int?",
        "tokens of the prompt as sent, counted by the client: fewer in prompt_tokens means that the server cut it; "
        "null where nobody counted",
    ),
    column(
        "output_token_ids",
        "ints?",
        "the output as numbers of the target's tokenizer; null where it was not greedy, or the engine does not tell",
    ),
)
_COMPUTED = (
    column("is_completed", "bool", "ended without an error", latency.is_completed),
    column("send_delay_ms", "double?", "sent - intended_send", latency.send_delay_ms),
    column("ttft_ms", "double?", "time to first token: first_token - sent", latency.ttft_ms),
    column(
        "ttft_from_intended_ms",
        "double?",
        "first_token - intended_send: the wait in the client counts too",
        latency.ttft_from_intended_ms,
    ),
    column("tpot_ms", "double?", "(last chunk - first_token) / (completion_tokens - 1)", latency.tpot_ms),
    column("e2e_ms", "double?", "end - sent", latency.e2e_ms),
)

REQUEST_COLUMNS: tuple[Column, ...] = (*_RECORDED, *_COMPUTED)

TELEMETRY_COLUMNS: tuple[Column, ...] = (
    column("t_s", "double", "seconds since the window began"),
    column("loop_lag_ms", "double", "worst lag of the client's event loop in this second"),
    column("requests_in_flight", "int", "requests sent and not answered in full"),
    column("requests_done", "int", "requests ended since the window began"),
    column("chunks_received", "int", "streamed chunks received since the window began"),
    column("engine_running", "int?", "requests the engine worked on at that moment, as it says itself"),
    column("engine_waiting", "int?", "requests in the engine's own queue at that moment"),
    column("kv_cache_usage", "double?", "share of the engine's KV cache in use, 0 to 1"),
    column("host_cpu_percent", "double?", "use of all processors of the client's host since the row before"),
    column("host_memory_used_bytes", "bigint?", "memory of the client's host that is not available any more"),
    column("gpu_utilisation_percent", "double?", "share of the time that the GPUs computed, mean of the engine's GPUs"),
    column("gpu_memory_used_bytes", "bigint?", "memory in use, sum of the engine's GPUs"),
    column("gpu_power_w", "double?", "power drawn, sum of the engine's GPUs"),
    column("gpu_sm_clock_mhz", "double?", "clock of the multiprocessors, of the slowest of the engine's GPUs"),
    column("gpu_memory_clock_mhz", "double?", "clock of the memory, of the slowest of the engine's GPUs"),
    column("gpu_temperature_c", "double?", "of the hottest of the engine's GPUs"),
    column(
        "gpu_throttle_reasons",
        "text?",
        "why NVML says that clocks are held back, of any of the engine's GPUs, joined by commas; empty for no reason",
    ),
    column(
        "gpu_other_processes",
        "int?",
        "processes that computed on the engine's GPUs and were not the engine's; null where nobody can tell",
    ),
)
