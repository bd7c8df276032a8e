"""The last step of every importer: build one run from printed and recomputed figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from lab.metrics.measure import Value
from warehouse.importers import recompute
from warehouse.importers.fields import Taken, latency_columns
from warehouse.importers.json_reader import Document
from warehouse.importers.model import (
    ImportedRequest,
    ImportedRun,
    LeftOut,
    Scalar,
    SourceFile,
    all_columns,
    all_metrics,
    run_id,
)

#: Tools compute shares in floating point.
_ROUNDING = 1e-6
#: Figures that some tools print as 0 for a run in which nothing completed; here they are unknown.
_OF_COMPLETED = (
    "duration_s",
    "prompt_tokens",
    "completion_tokens",
    "request_per_s",
    "output_tok_per_s",
    "total_tok_per_s",
    "goodput_request_per_s",
    *latency_columns("ttft", "tpot", "itl", "icl", "e2e"),
)


def build_run(
    tool: str,
    document: Document,
    content: object,
    taken: Taken,
    *,
    columns: Mapping[str, Scalar],
    requests: Sequence[ImportedRequest] | None = None,
    tool_version: str | None = None,
    place: str = "",
    labels: Mapping[str, str] | None = None,
    companions: Sequence[SourceFile] = (),
) -> ImportedRun:
    """Build the run. If the file has its requests, figures recomputed from them replace the printed ones, and a
    difference is noted as a doubt. The run's id is the digest of `content`.
    """
    computed = recompute.of_requests(requests) if requests is not None else {}
    doubts = recompute.disagreements(taken.metrics, computed, "its own requests")
    metrics = {**taken.metrics, **computed}
    derived = recompute.rates(metrics)
    doubts += recompute.disagreements(metrics, derived, "its tokens and duration")
    doubts += _acceptance_doubts(metrics)
    taken.metrics = {**derived, **metrics}
    _refuse_impossible(document, taken.metrics)
    _refuse_impossible(document, derived)
    if not taken.metrics.get("requests_completed", 1):
        taken.drop(_OF_COMPLETED, "no request completed")
    return ImportedRun(
        run_id=run_id(tool, content),
        tool=tool,
        tool_version=tool_version,
        source=document.file.source,
        place=place,
        columns=all_columns(columns),
        metrics=all_metrics(taken.metrics),
        requests=None if requests is None else tuple(requests),
        labels=dict(labels or {}),
        printed=dict(taken.printed),
        left_out=tuple(dict.fromkeys(taken.left_out)),
        doubts=tuple(dict.fromkeys(doubts)),
        companions=tuple(companions),
    )


def _refuse_impossible(document: Document, metrics: Mapping[str, Value]) -> None:
    """Raise ForeignFileError for shares above 1 and for quotients that overflow."""
    per_position = metrics.get("acceptance_per_position")
    shares = [metrics.get("acceptance_rate"), *(per_position if isinstance(per_position, tuple) else ())]
    if any(isinstance(share, float) and share > 1 + _ROUNDING for share in shares):
        raise document.error((), "more tokens were accepted than drafted, which is impossible")
    for name, value in metrics.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise document.error((), f"{name} cannot be computed from its figures: they are too large or too small")


def _acceptance_doubts(metrics: Mapping[str, Value]) -> tuple[str, ...]:
    counts = (metrics.get(name) for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"))
    drafts, drafted, accepted = (value if isinstance(value, int) else None for value in counts)
    found = recompute.acceptance(drafts, drafted, accepted)
    doubts = recompute.disagreements(metrics, found, "its counts of drafted and accepted tokens")
    per_position = metrics.get("acceptance_per_position")
    if isinstance(per_position, tuple):
        length: dict[str, Value] = {"acceptance_length": 1 + sum(per_position)}
        doubts += recompute.disagreements(metrics, length, "1 + its rates per position")
    return doubts


def left_out(taken: Taken, name: str, why: str) -> None:
    taken.left_out.append(LeftOut(name, why))
