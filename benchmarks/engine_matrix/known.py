"""What a measured run knows, by the names of the captures."""

from __future__ import annotations

from jobs.engines.captures import ANY_ARM, SPECULATING
from lab.metrics.records import ServerCounters
from warehouse.bundles.run_bundle import Bundle


def known(bundle: Bundle) -> dict[str, bool]:
    """Return whether a run has each of the figures, by the names of the captures."""
    run, requests = bundle.run, bundle.requests.arrow
    after = run.counters_after or ServerCounters()

    def of_requests(column: str) -> bool:
        return bool(requests.num_rows) and requests.column(column).null_count == 0

    def sampled(name: str) -> bool:
        return any(getattr(sample, name) is not None for sample in bundle.telemetry)

    speculating = (
        after.num_drafts is not None and after.num_accepted_tokens is not None,
        bool(after.num_accepted_tokens_per_position),
        of_requests("spec_accepted_tokens"),
    )
    others = (
        of_requests("chunk_tokens"),
        of_requests("output_token_ids"),
        after.prefix_cache_hits is not None,
        sampled("kv_cache_usage"),
        after.num_preemptions is not None,
        sampled("engine_running"),
        bool(run.circumstances.effective_config),
        run.circumstances.engine_version is not None,
    )
    of_speculation = {} if run.arm.speculation is None else dict(zip(SPECULATING, speculating, strict=True))
    return of_speculation | dict(zip(ANY_ARM, others, strict=True))
