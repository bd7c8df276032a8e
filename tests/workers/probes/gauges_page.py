"""A page of vLLM's metrics with gauges, and what they are."""

from __future__ import annotations

from workers.probes.engine_metrics import GaugeReading

PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a"} 3.0
vllm:num_requests_running{engine="1",model_name="a"} 1.0
vllm:num_requests_waiting{engine="0",model_name="a"} 7.0
vllm:kv_cache_usage_perc{engine="0",model_name="a"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="a"} 0.25
vllm:generation_tokens_total{engine="0",model_name="a"} 64.0
"""
EXPECTED = GaugeReading(engine_running=4, engine_waiting=7, kv_cache_usage=0.375)
