"""The tables of the first release. `drafthouse migrate` sets views and comments anew: no revision has them.

Rules: import nothing of Drafthouse, and never change a revision that was released.
"""

from __future__ import annotations

from collections.abc import Iterator

from alembic import op

revision = "warehouse_0022"
down_revision = None
branch_labels = None
depends_on = None

#: The columns of each table in order, those of one type that follow each other in one line. `!` refuses null.
_TABLES = {
    "archived_runs": """
        VARCHAR!: run_id file
        TIMESTAMPTZ!: archived_at
    """,
    "capacities": """
        VARCHAR!: job_id arm
        BOOLEAN!: is_baseline
        VARCHAR: method
        INTEGER: num_speculative_tokens
        VARCHAR!: workload category pattern
        INTEGER!: concurrency
        VARCHAR!: find
        DOUBLE!: slo_share
        INTEGER: repeat
        DOUBLE: capacity low high
        INTEGER!: trials
        BIGINT!: requests
        DOUBLE: goodput_tok_per_s
    """,
    "findings": """
        VARCHAR!: run_id check_name severity sentence advice
    """,
    "histograms": """
        VARCHAR!: run_id metric
        INTEGER!: bucket
        BIGINT!: count
    """,
    "imported_figures": """
        VARCHAR!: run_id field
        DOUBLE: value
        VARCHAR: left_out
    """,
    "jobs": """
        VARCHAR!: job_id study_id name state
        INTEGER!: priority
        TIMESTAMPTZ!: submitted_at
        TIMESTAMPTZ: started_at finished_at
        VARCHAR: worker
        INTEGER!: tries
        VARCHAR: error hardware
    """,
    "prices": """
        INTEGER!: price_id
        VARCHAR!: hardware
        DATE!: valid_from
        VARCHAR!: currency source
        DOUBLE: rented_per_hour purchase_price lifetime_years utilisation electricity_per_kwh
        TIMESTAMPTZ!: added_at
        TIMESTAMPTZ: withdrawn_at
    """,
    "prompt_latencies": """
        VARCHAR!: run_id prompts_id
        DOUBLE[]!: ttft_ms tpot_ms e2e_ms
    """,
    "prompt_lists": """
        VARCHAR!: prompts_id
        VARCHAR[]!: prompt_ids
    """,
    "published_doubts": """
        VARCHAR!: check_name source sentence
        INTEGER[]!: numbers
        VARCHAR[]!: run_ids
    """,
    "published_results": """
        INTEGER!: number
        VARCHAR!: source study hardware engine
        VARCHAR: engine_version
        VARCHAR!: target method
        VARCHAR: draft_model
        INTEGER: num_speculative_tokens
        VARCHAR!: dataset access_pattern
        VARCHAR: load
        VARCHAR!: metric printed
        DOUBLE!: value
        VARCHAR!: unit scale
        DOUBLE: ratio_to_baseline price_usd_per_hour
        VARCHAR: note run_id
    """,
    "published_runs": """
        VARCHAR!: run_id cell_key job_id study_id study_name
        VARCHAR: target
        VARCHAR!: arm
        VARCHAR: method draft_model
        INTEGER: num_speculative_tokens
        VARCHAR: workload dataset pattern
        INTEGER: concurrency
        VARCHAR!: status
        VARCHAR: error hardware engine engine_version
        VARCHAR!: origin
        DOUBLE: duration_s output_tok_per_s total_tok_per_s acceptance_rate acceptance_length
        DOUBLE[]: acceptance_per_position
        DOUBLE: ttft_mean_ms tpot_mean_ms
    """,
    "published_sources": """
        VARCHAR!: source date title method
        VARCHAR: preset
    """,
    "recent_requests": """
        VARCHAR!: run_id
        INTEGER!: index
        VARCHAR: prompt_id category prompt
        INTEGER: requested_output_tokens
        DOUBLE: intended_send_s sent_s first_token_s end_s
        DECIMAL(18,6)[]: chunk_s
        INTEGER[]: chunk_tokens
        INTEGER: prompt_tokens completion_tokens
        VARCHAR: finish_reason error output_text
        INTEGER: spec_drafts spec_draft_tokens spec_accepted_tokens
        BOOLEAN!: is_completed
        DOUBLE: send_delay_ms ttft_ms ttft_from_intended_ms tpot_ms e2e_ms
        INTEGER: sent_prompt_tokens
        INTEGER[]: output_token_ids
        VARCHAR: session_id
        INTEGER: turn context_tokens
        INTEGER[]: rounds_drafted rounds_accepted rounds_count
        INTEGER: reasoning_tokens reasoning_chars
        DOUBLE: first_answer_s
        VARCHAR: expected
        DOUBLE: score tests_passed
        INTEGER: reasoning_rounds reasoning_accepted_tokens
        TIMESTAMPTZ: run_started_at
    """,
    "rejected_bundles": """
        VARCHAR!: path error
        TIMESTAMPTZ!: rejected_at
    """,
    "request_groups": """
        VARCHAR!: run_id grain
        INTEGER: turn context_tokens
        BIGINT!: requests
        BIGINT: completion_tokens
        DOUBLE: prompt_tokens_mean ttft_mean_ms ttft_p50_ms ttft_p90_ms ttft_p95_ms ttft_p99_ms tpot_mean_ms
        DOUBLE: tpot_p50_ms tpot_p90_ms tpot_p95_ms tpot_p99_ms e2e_mean_ms e2e_p50_ms e2e_p90_ms e2e_p95_ms
        DOUBLE: e2e_p99_ms
        BIGINT: num_drafts num_draft_tokens num_accepted_tokens
        DOUBLE: acceptance_rate acceptance_length
    """,
    "run_metrics": """
        VARCHAR!: run_id
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
    """,
    "runs": """
        VARCHAR!: run_id cell_key job_id study_id study_name
        VARCHAR: target
        VARCHAR!: arm
        BOOLEAN: is_baseline
        VARCHAR: method draft_model
        INTEGER: num_speculative_tokens
        VARCHAR: arm_json dataset category
        INTEGER: requested_output_tokens
        BOOLEAN: ignore_eos
        VARCHAR: pattern
        INTEGER: concurrency num_prompts
        DOUBLE: request_rate_rps burstiness
        VARCHAR: endpoint
        DOUBLE: temperature top_p
        BIGINT: seed
        VARCHAR: slo_json
        INTEGER: repeat launch_index attempt
        VARCHAR!: status
        VARCHAR: error
        TIMESTAMPTZ: started_at
        DOUBLE: window_s
        INTEGER: warmup_requests
        DOUBLE: warmup_s idle_before_s
        VARCHAR: counters_before_json counters_after_json
        DOUBLE: loop_lag_p99_ms loop_lag_max_ms late_send_max_ms client_cpu_s
        VARCHAR: hardware host
        INTEGER: cpu_count
        BIGINT: memory_bytes
        VARCHAR: os python_version drafthouse_revision engine engine_version command_json environment_json
        VARCHAR: effective_config_json target_path target_digest
        DOUBLE: engine_start_s
        INTEGER!: format_version
        VARCHAR: cell_id arm_id workload_id load_id dataset_digest
        BIGINT: prompts_seed
        VARCHAR: workload
        INTEGER: input_tokens
        BOOLEAN: own_output_lengths
        VARCHAR: workload_json arrivals load_json target_revision draft_path draft_digest draft_revision
        VARCHAR: driver_version
        VARCHAR[]: gpus
        VARCHAR: gpus_found_by settings_json
        BIGINT: log_begin_bytes log_end_bytes
        VARCHAR!: origin
        VARCHAR: tool tool_version source_sha256 labels_json arm_order
        INTEGER: idle_engines
        DOUBLE: idle_engine_cpu_percent idle_engine_gpu_percent
        BOOLEAN: until_decided
        VARCHAR: search
        INTEGER: trial_number
        VARCHAR: ended_early beside_json session_answers score
        INTEGER: slot
    """,
    "studies": """
        VARCHAR!: study_id name toml json
        TIMESTAMPTZ!: created_at
    """,
    "study_findings": """
        VARCHAR!: job_id check_name severity sentence advice
        VARCHAR[]!: run_ids
    """,
    "study_verdicts": """
        VARCHAR!: job_id
        INTEGER!: runs_judged
        VARCHAR[]!: unjudged_checks
    """,
    "telemetry": """
        VARCHAR!: run_id
        DOUBLE!: t_s loop_lag_ms
        INTEGER!: requests_in_flight requests_done chunks_received
        INTEGER: engine_running engine_waiting
        DOUBLE: kv_cache_usage host_cpu_percent
        BIGINT: host_memory_used_bytes
        DOUBLE: gpu_utilisation_percent
        BIGINT: gpu_memory_used_bytes
        DOUBLE: gpu_power_w gpu_sm_clock_mhz gpu_memory_clock_mhz gpu_temperature_c
        VARCHAR: gpu_throttle_reasons
        INTEGER: gpu_other_processes
    """,
    "verdicts": """
        VARCHAR!: run_id
        BOOLEAN!: is_valid
        VARCHAR[]!: why_invalid unjudged_checks
    """,
}


def upgrade() -> None:
    for name, lines in _TABLES.items():
        op.execute(f'CREATE TABLE "{name}" ({", ".join(_columns(lines))})')


def _columns(lines: str) -> Iterator[str]:
    for line in lines.strip().splitlines():
        kind, _, names = line.strip().partition(": ")
        for name in names.split():
            yield f'"{name}" {kind.removesuffix("!")}{" NOT NULL" * kind.endswith("!")}'


def downgrade() -> None:
    for name in _TABLES:
        op.drop_table(name)
