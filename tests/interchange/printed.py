"""What each tool printed when it wrote the sample: completed, failed, output tok/s, mean TTFT and TPOT (ms), acceptance
rate in percent and length. TPOT is whatever the tool calls by that name or by ITL; None where it printed none.
"""

from __future__ import annotations

from typing import NamedTuple


class Printed(NamedTuple):
    file: str  # with "#2" for the second run in it
    completed: int
    failed: int | None
    output_tok_per_s: float
    ttft_ms: float
    tpot_ms: float
    rate_percent: float | None = None
    length: float | None = None


_SWEEP = "vllm-bench-sweep/SERVE--{}/run={}.json"
_GENAI = "genai-bench/{}_text-to-text_num_concurrency_{}.json"
_IP = "inference-perf/{}/stage_{}_lifecycle_metrics.json"
PRINTED = (
    Printed("aiperf/base-code-c4/profile_export_aiperf.json", 16, 0, 91.02, 469.51, 33.70),
    Printed("aiperf/spec-code-c2/profile_export_aiperf.json", 8, 0, 66.24, 194.13, 24.24, 28.89, 1.867),
    Printed("aiperf/spec-code-c4/profile_export_aiperf.json", 16, 0, 122.21, 245.69, 25.14, 27.96, 1.839),
    Printed(_GENAI.format("base-d64x48-c4/D64_48", "4_time_9s"), 16, 0, 82.48, 332.84, 38.95),
    Printed(_GENAI.format("spec-d64x32-c2-4/D64_32", "2_time_4s"), 11, 0, 82.92, 132.18, 14.89),
    Printed(_GENAI.format("spec-d64x32-c2-4/D64_32", "4_time_4s"), 11, 0, 87.78, 246.21, 32.16),
    Printed(_GENAI.format("spec-d64x48-c4/D64_48", "4_time_5s"), 20, 0, 181.22, 169.40, 17.53),
    Printed("guidellm/spec-code-concurrent-2-4.json", 8, 0, 53.42, 161.95, 33.30),
    Printed("guidellm/spec-code-concurrent-2-4.json#2", 8, 0, 82.10, 377.96, 41.46),
    Printed("guidellm/spec-code-concurrent-4.json", 16, 0, 89.27, 233.76, 38.25),
    Printed("guidellm/spec-code-synchronous.json", 8, 0, 40.20, 131.77, 22.45),
    Printed(_IP.format("base-synthetic64x48-c4", 0), 16, 0, 123.61, 182.97, 28.39),
    Printed(_IP.format("spec-synthetic64x32-c2-4", 0), 8, 0, 47.88, 137.55, 37.47),
    Printed(_IP.format("spec-synthetic64x32-c2-4", 1), 8, 0, 76.83, 141.94, 40.83),
    Printed(_IP.format("spec-synthetic64x48-c4", 0), 16, 0, 83.81, 188.78, 46.95),
    Printed("sglang-bench-serving/spec-random64x48-c4.jsonl", 16, 0, 177.73, 210.30, 17.18),
    Printed(_SWEEP.format("base-BENCH--c1", 0), 8, 0, 39.00, 118.62, 22.63),
    Printed(_SWEEP.format("base-BENCH--c1", 1), 8, 0, 40.77, 108.89, 21.79),
    Printed(_SWEEP.format("base-BENCH--c4", 0), 16, 0, 118.11, 331.90, 24.19),
    Printed(_SWEEP.format("base-BENCH--c4", 1), 16, 0, 117.26, 325.00, 24.66),
    Printed(_SWEEP.format("spec-k3-BENCH--c1", 0), 8, 0, 54.92, 116.99, 15.01, 25.23, 1.757),
    Printed(_SWEEP.format("spec-k3-BENCH--c1", 1), 8, 0, 52.92, 121.04, 15.59, 25.23, 1.757),
    Printed(_SWEEP.format("spec-k3-BENCH--c4", 0), 16, 0, 103.32, 302.16, 29.12, 27.44, 1.823),
    Printed(_SWEEP.format("spec-k3-BENCH--c4", 1), 16, 0, 106.04, 272.04, 29.16, 27.44, 1.823),
    Printed("vllm-bench/base-code-c1.json", 8, 0, 35.68, 155.90, 23.90),
    Printed("vllm-bench/base-code-c4.json", 16, 0, 113.23, 440.96, 26.64),
    Printed("vllm-bench/base-random-c4.json", 12, 0, 136.07, 230.92, 22.81),
    Printed("vllm-bench/spec-code-append-c4.json", 8, 0, 111.72, 316.28, 23.67, 25.23, 1.757),
    Printed("vllm-bench/spec-code-append-c4.json#2", 8, 0, 111.78, 268.76, 24.67, 25.23, 1.757),
    Printed("vllm-bench/spec-code-c1.json", 8, 0, 53.10, 125.89, 15.37, 25.23, 1.757),
    Printed("vllm-bench/spec-code-c4.json", 16, 0, 129.03, 211.23, 25.37, 28.77, 1.863),
    Printed("vllm-bench/spec-random-c4.json", 12, 0, 136.99, 217.52, 21.40, 40.19, 2.206),
    Printed("vllm-bench/spec-somefail-c4.json", 9, 3, 96.76, 299.59, 27.61, 29.60, 1.888),
)
