"""Details of the arms in one cell, for the runs that a comparison found there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pandas as pd

from lab.comparison.acceptance import Acceptance, Counts, pooled, with_fewer_tokens
from warehouse.queries.results import frame
from warehouse.queries.rows import dicts, parallel, records_of

RunIds = Mapping[str, Sequence[str]]  # of each arm


def histograms(con: duckdb.DuckDBPyConnection, arms: RunIds, latencies: Sequence[str]) -> pd.DataFrame:
    """arm, latency (one of lab.metrics.catalogue.LATENCIES), bucket, count: each arm's runs pooled.

    `lab.metrics.histogram.quantile` gives percentiles of it.
    """
    return frame(con, _HISTOGRAMS, [*parallel(arms), list(latencies)])


def acceptances(con: duckdb.DuckDBPyConnection, arms: RunIds) -> dict[str, dict[int, Acceptance]]:
    """Return the acceptance by arm and number of drafted tokens: as measured, and an estimate for each smaller number.

    From the server's counters; arms without counters by position are left out.
    """
    counts_by_arm: dict[str, list[Counts]] = {}
    for row in dicts(con, _COUNTERS, parallel(arms)):
        rates = tuple(row["acceptance_per_position"])
        counts = Counts(row["num_drafts"], row["num_draft_tokens"], row["num_accepted_tokens"], rates)
        counts_by_arm.setdefault(row["arm"], []).append(counts)
    measured = {arm: pooled(counts) for arm, counts in counts_by_arm.items()}
    return {
        arm: {
            k: estimate
            for k in range(1, len(acceptance.per_position or ()) + 1)
            if (estimate := with_fewer_tokens(acceptance, k)) is not None
        }
        for arm, acceptance in measured.items()
    }


def texts(
    con: duckdb.DuckDBPyConnection, baseline: Sequence[str], candidate: Sequence[str], prompt_ids: Sequence[str]
) -> pd.DataFrame:
    """prompt_id, prompt, baseline_output, candidate_output: in the order of `prompt_ids`.

    If an arm has several runs, the first one's texts, as in `paired_runs.outputs`.
    """
    wanted = list(prompt_ids)
    texts = _TEXTS.format(records=records_of(con, [*baseline, *candidate]))
    outputs = frame(con, texts, [list(baseline), list(candidate), wanted])
    return outputs.set_index("prompt_id").reindex(wanted).reset_index()


_CHOSEN = "(SELECT unnest($1::TEXT[]) AS run_id, unnest($2::TEXT[]) AS arm)"
_HISTOGRAMS = f"""
    SELECT chosen.arm, metric AS latency, bucket, sum(count)::BIGINT AS count
    FROM histograms JOIN {_CHOSEN} AS chosen USING (run_id)
    WHERE run_id IN (SELECT unnest($1::TEXT[])) AND metric IN (SELECT unnest($3::TEXT[]))
    GROUP BY ALL ORDER BY ALL
"""  # noqa: S608 - no user's text is in it
_COUNTERS = f"""
    SELECT chosen.arm, num_drafts, num_draft_tokens, num_accepted_tokens, acceptance_per_position
    FROM run_metrics JOIN {_CHOSEN} AS chosen USING (run_id)
    WHERE run_id IN (SELECT unnest($1::TEXT[])) AND num_drafts > 0 AND num_accepted_tokens IS NOT NULL
        AND acceptance_per_position IS NOT NULL
    ORDER BY chosen.arm, run_id
"""  # noqa: S608 - likewise
_TEXTS = """
    WITH first AS (
        SELECT prompt_id, run_id IN (SELECT unnest($1::TEXT[])) AS is_baseline, arg_min(prompt, run_id) AS prompt,
            arg_min(output_text, run_id) AS output
        FROM {records}
        WHERE (run_id IN (SELECT unnest($1::TEXT[])) OR run_id IN (SELECT unnest($2::TEXT[])))
            AND is_completed AND prompt_id IN (SELECT unnest($3::TEXT[]))
        GROUP BY ALL
    )
    SELECT prompt_id, any_value(prompt) FILTER (is_baseline) AS prompt,
        any_value(output) FILTER (is_baseline) AS baseline_output,
        any_value(output) FILTER (NOT is_baseline) AS candidate_output
    FROM first GROUP BY prompt_id
"""
