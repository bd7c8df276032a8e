"""`drafthouse compare STUDY --with OTHER`: arms of other studies, own or imported, against one of the first."""

from __future__ import annotations

from collections.abc import Sequence

from cli.output import print_json, print_table, print_text
from cli.results import results_of
from lab.metrics.number_format import bounds, number, times
from warehouse.queries.comparing.across_studies import (
    UNPAIRED,
    AcrossStudies,
    Beside,
    across_document,
    compare_across,
)

_UNKNOWN = "unknown"


def show_across(
    studies: Sequence[str],
    metric: str,
    baseline: str | None,
    runs: Sequence[str],
    price_per_hour: float | None,
    *,
    any_workload: bool,
    as_json: bool,
) -> None:
    """Print the ratios, what differs between the studies, and what is left out."""
    with results_of(studies[0]) as con:
        found = compare_across(
            con,
            studies,
            metric,
            baseline=baseline,
            runs=runs,
            any_workload=any_workload,
            price_usd_per_hour=price_per_hour,
        )
    if as_json:
        print_json(across_document(found))
        return
    print_text(f"{found.metric} in {found.unit}, arms of other studies against {found.names[found.baseline]!r}\n")
    head = ("arm", "ratio", "95 % interval, unpaired", "load", "workload", "baseline's", "value", "baseline", "from")
    print_table(head, [_row(found, pair) for pair in found.pairs])
    if not found.pairs:
        print_text("nothing is compared: no load, and workload as far as it is known, is the same in two studies")
    print_text(UNPAIRED)
    if found.differences:
        print_text("")
        rows = [
            (each.word, each.what, *map(_known, (each.baseline, each.other)), "; ".join(each.arms))
            for each in found.differences
        ]
        print_table(("", "what", "baseline", "other", "arms"), rows)
    for sentence in found.left_out:
        print_text(f"left out: {sentence}")


def _row(found: AcrossStudies, pair: Beside) -> tuple[str, ...]:
    name, note = found.names[pair.candidate.of], pair.candidate.note
    ratio = pair.ratio
    return (
        f"{name} ({note})" if note else name,
        "" if ratio is None else times(ratio.value, ratio.low, ratio.high),
        pair.why if ratio is None or ratio.low is None else bounds(ratio.value, ratio.low, ratio.high),
        pair.load,
        pair.candidate.workload,
        pair.baseline.workload,
        number(pair.candidate.value),
        number(pair.baseline.value),
        pair.basis,
    )


def _known(value: str | None) -> str:
    return _UNKNOWN if value is None else value
