"""The rounds in which runs are measured: their metrics, the windows of a run, and the round of each request.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

revision = "warehouse_0027"
down_revision = "warehouse_0026"
branch_labels = None
depends_on = None

#: The columns in order, those of one type that follow each other in one line. `!` refuses null.
_ROUNDS = """
        VARCHAR!: run_id
        INTEGER!: round
        TIMESTAMPTZ!: started_at
        DOUBLE!: start_s end_s
        BIGINT: requests_completed requests_failed
        DOUBLE: duration_s
        BIGINT: prompt_tokens completion_tokens
        DOUBLE: output_tok_per_s total_tok_per_s request_per_s goodput_request_per_s
        BIGINT: num_drafts num_draft_tokens num_accepted_tokens
        DOUBLE: acceptance_rate acceptance_length
        DOUBLE[]: acceptance_per_position
        DOUBLE: prefix_cache_hit_rate
        BIGINT: server_generation_tokens
        DOUBLE: ttft_mean_ms ttft_p50_ms ttft_p90_ms ttft_p95_ms ttft_p99_ms tpot_mean_ms tpot_p50_ms tpot_p90_ms
        DOUBLE: tpot_p95_ms tpot_p99_ms itl_mean_ms itl_p50_ms itl_p90_ms itl_p95_ms itl_p99_ms icl_mean_ms icl_p50_ms
        DOUBLE: icl_p90_ms icl_p95_ms icl_p99_ms e2e_mean_ms e2e_p50_ms e2e_p90_ms e2e_p95_ms e2e_p99_ms energy_j
        DOUBLE: energy_j_per_output_token gpu_power_mean_w gpu_utilisation_mean_percent
        BIGINT: gpu_memory_used_max_bytes
        DOUBLE: gpu_sm_clock_mean_mhz gpu_memory_clock_mean_mhz gpu_temperature_mean_c gpu_temperature_max_c
        DOUBLE: gpu_throttled_share kv_cache_usage_max engine_running_mean engine_waiting_mean
        BIGINT: engine_waiting_max
        DOUBLE: host_cpu_mean_percent
        BIGINT: host_memory_used_max_bytes
        DOUBLE: steady_window_s steady_output_tok_per_s
        BIGINT: requests_within_slo
        DOUBLE: goodput_tok_per_s draft_length_mean
        BIGINT: num_verified_tokens num_wasted_tokens
        DOUBLE: wasted_share
        DOUBLE[]: rounds_by_draft_length acceptance_of_drafted_position
        BIGINT: reasoning_tokens answer_tokens
        DOUBLE: answer_tok_per_s ttfa_p50_ms ttfa_p95_ms
        BIGINT: requests_scored
        DOUBLE: task_score reasoning_tokens_per_chunk answer_tokens_per_chunk reasoning_acceptance_length
        DOUBLE: answer_acceptance_length
        BIGINT: num_forbidden_draft_tokens
        DOUBLE: other_cpu_percent
"""


def upgrade() -> None:
    op.add_column("runs", sa.Column("windows_json", sa.String))
    op.add_column("recent_requests", sa.Column("round", sa.Integer))
    op.execute(f"CREATE TABLE rounds ({', '.join(_columns(_ROUNDS))})")


def _columns(lines: str) -> Iterator[str]:
    for line in lines.strip().splitlines():
        kind, _, names = line.strip().partition(": ")
        for name in names.split():
            yield f'"{name}" {kind.removesuffix("!")}{" NOT NULL" * kind.endswith("!")}'


def downgrade() -> None:
    op.drop_table("rounds")
    op.drop_column("recent_requests", "round")
    op.drop_column("runs", "windows_json")
