"""Example queries, each with the chart of its answer."""

from __future__ import annotations

from dataclasses import dataclass

from webapp.charts.custom import ChartSpec


@dataclass(frozen=True)
class Example:
    title: str
    sql: str
    chart: ChartSpec | None = None


EXAMPLES: tuple[Example, ...] = (
    Example(
        "Throughput of each arm by concurrency",
        """-- the view valid_latest_runs has the last valid attempt at each run
SELECT arm, concurrency,
    avg(output_tok_per_s) AS output_tok_per_s, count(*) AS runs
FROM valid_latest_runs
WHERE origin = 'measured'
GROUP BY ALL
ORDER BY concurrency, arm""",
        ChartSpec("line", "concurrency", "output_tok_per_s", "arm"),
    ),
    Example(
        "Acceptance length by method and category of prompts",
        """SELECT method, coalesce(category, dataset) AS prompts, num_speculative_tokens,
    1 + sum(num_accepted_tokens) / nullif(sum(num_drafts), 0) AS acceptance_length
FROM valid_latest_runs
WHERE num_drafts > 0
GROUP BY ALL
ORDER BY prompts, method""",
        ChartSpec("bar", "prompts", "acceptance_length", "method"),
    ),
    Example(
        "The slowest requests",
        """-- the view requests has one row per request
SELECT run_id, arm, category, ttft_ms, e2e_ms, prompt_tokens, completion_tokens
FROM requests
WHERE is_completed
ORDER BY e2e_ms DESC
LIMIT 100""",
        ChartSpec("point", "ttft_ms", "e2e_ms", "arm"),
    ),
    Example(
        "Your runs beside imported and published ones",
        """-- measured here, imported from files of other tools, and published
SELECT origin, coalesce(hardware, 'unknown hardware') AS hardware, study_name, arm, concurrency, output_tok_per_s
FROM valid_latest_runs
WHERE output_tok_per_s IS NOT NULL
ORDER BY concurrency, output_tok_per_s""",
        ChartSpec("point", "concurrency", "output_tok_per_s", "origin"),
    ),
    Example(
        "Invalid runs, and why",
        """SELECT study_name, arm, concurrency, severity, check_name, sentence, run_id
FROM findings JOIN results USING (run_id)
WHERE severity = 'invalid'
ORDER BY study_name, run_id""",
    ),
    Example(
        "Failed runs with their error messages",
        """SELECT started_at, study_name, arm, concurrency, error
FROM results
WHERE origin = 'measured' AND status <> 'completed'
ORDER BY started_at DESC""",
    ),
    Example("Every column of a view", "DESCRIBE results"),
)
