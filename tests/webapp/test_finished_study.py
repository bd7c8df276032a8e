"""What a finished study says stays as it is, to the last digit, whatever is measured or imported afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from host.settings import Settings
from interchange.store import import_paths
from lab.metrics.records import Identity
from tests.actors import ADMIN
from tests.cli.homes import new_home
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.lab.validity.healthy import healthy
from tests.warehouse.queries.comparing.stretched_arms import write_arm
from tests.warehouse.runs import ingested
from tests.webapp.conftest import OpenPage
from tests.webapp.homes import claimed_job
from tests.webapp.page_text import words
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.answers import study_answer
from warehouse.queries.comparing.comparisons import agreements, compare_study
from warehouse.queries.comparing.documents import answer_document, comparison_document
from warehouse.queries.comparing.ratio_tables import arm_means, arm_tables
from warehouse.queries.connect import open_warehouse

METRICS = ("output_tok_per_s", "tpot_p50_ms", "ttft_p99_ms")
ARMS = {"plain": 1.0, "drafted": 0.8, "same": 1.0}
EARLIER, BEGAN = datetime(2026, 11, 20, 9, tzinfo=UTC), datetime(2026, 11, 21, 9, tzinfo=UTC)
LATER = BEGAN + timedelta(days=1)
TWICE = range(2)


def measure(
    settings: Settings,
    job_id: str,
    began: datetime,
    *,
    scatter: float = 0.02,
    repeats: range = range(3),
    **changes: Any,
) -> None:
    """Three arms on new engine starts ten minutes apart, whose runs differ by `scatter`."""
    rng = np.random.default_rng((len(job_id), repeats.start))
    for repeat in repeats:
        for place, (arm, factor) in enumerate(ARMS.items()):
            own = Identity(cell_id=f"cell of {arm}", arm_id=f"arm {arm}", workload_id="w", load_id="l")
            write_arm(
                settings,
                arm,
                repeat,
                factor * float(np.exp(scatter * rng.standard_normal())),
                run_id=f"{job_id}-{arm}-{repeat}-{changes.get('attempt', 0)}",
                job_id=job_id,
                study_name=job_id,
                identity=own,
                started_at=(began + timedelta(minutes=10 * repeat + 3 * place)).isoformat(),
                **changes,
            )


def everything_said(settings: Settings, job_id: str, metrics: Sequence[str] = METRICS) -> dict[str, object]:
    """The documents of the API, and the means over all cells."""
    said: dict[str, object] = {}
    with open_warehouse(settings.warehouse_file) as con:
        for metric in metrics:
            for strict in (False, True):
                comparison = compare_study(con, job_id, metric, strict=strict)
                agreed = [agreement for _, agreement in agreements(con, comparison)]
                said[f"comparison {metric} {strict}"] = comparison_document(comparison, agreed)
                said[f"answer {metric} {strict}"] = answer_document(study_answer(comparison))
                said[f"means {metric} {strict}"] = repr((arm_means(comparison), arm_tables(con, comparison)))
    return said


def everything_shown(settings: Settings, open_page: OpenPage, job_id: str) -> dict[str, object]:
    """What the command prints and the pages have, but for how many studies there are."""
    home, shown = new_home(settings.home), dict[str, object]()
    for verb in (("compare",), ("compare", "--json"), ("compare", "--table"), ("advise",)):
        answer = home.ask(verb[0], job_id, *verb[1:])
        assert answer.returncode == 0, answer.stderr
        shown[" ".join(verb)] = answer.stdout
    for page in ("results", "compare", "deploy"):
        app = open_page(page, job=job_id)
        own = app.dataframe[page == "deploy" :]  # whose first table is of all studies of the target
        shown[page] = words(app), [table.value.to_json() for table in own]
    return shown


def measured_again(settings: Settings) -> None:
    measure(settings, "earlier", LATER, repeats=TWICE, scatter=0.9, attempt=1)


def measured_on_a_clock_ahead(settings: Settings) -> None:
    measure(settings, "of a clock ahead", LATER + timedelta(days=2000), repeats=TWICE, scatter=0.9)


def measured_on_a_clock_behind(settings: Settings) -> None:
    """Its job was submitted today."""
    measure(
        settings, claimed_job(settings, study(name="later")), BEGAN - timedelta(days=2000), repeats=TWICE, scatter=0.9
    )


def measured_at_an_unknown_time(settings: Settings) -> None:
    measure(settings, "without a window", BEGAN - timedelta(days=9), repeats=TWICE, scatter=0.9, duration_s=None)


def found_invalid(settings: Settings) -> None:
    after = healthy().run.counters_after
    assert after is not None
    wrong = after.model_copy(update={"generation_tokens": 10.0 * (after.generation_tokens or 0)})
    measure(settings, "invalid", LATER, repeats=TWICE, scatter=0.9, counters_after=wrong)


def still_under_way(settings: Settings) -> None:
    """Its first two starts had ended before."""
    measure(settings, "beside", BEGAN - timedelta(minutes=25), scatter=0.9, repeats=range(3, 6))


def imported(settings: Settings) -> None:
    import_paths(settings, [SAMPLES / "vllm-bench" / "spec-code-c4.json"], actor=ADMIN)


AFTERWARDS: tuple[Callable[[Settings], None], ...] = (
    lambda settings: measure(settings, "later", LATER, repeats=TWICE, scatter=0.9),
    measured_again,
    measured_on_a_clock_ahead,
    measured_on_a_clock_behind,
    measured_at_an_unknown_time,
    found_invalid,
    still_under_way,
    imported,
)


def test_what_is_measured_later_changes_nothing_that_a_finished_study_says(
    settings: Settings, open_page: OpenPage
) -> None:
    measure(settings, "earlier", EARLIER)
    measure(settings, "beside", BEGAN - timedelta(minutes=25), repeats=range(2))
    measure(settings, "asked", BEGAN, repeats=range(1))
    ingest_all(settings)
    said, shown = everything_said(settings, "asked"), everything_shown(settings, open_page, "asked")
    assert "with the scatter of 6 cells measured before" in str(said)
    for happens in AFTERWARDS:
        happens(settings)
        ingest_all(settings)
        assert said | everything_said(settings, "asked", METRICS[:1]) == said
    assert everything_said(settings, "asked") == said
    assert everything_shown(settings, open_page, "asked") == shown


def test_a_study_under_way_is_judged_by_what_ended_before_it(settings: Settings) -> None:
    measure(settings, "earlier", EARLIER)
    measure(settings, "asked", BEGAN, repeats=range(1))
    measure(settings, "beside", BEGAN + timedelta(minutes=1), scatter=0.9)
    measure(settings, "asked", BEGAN, repeats=range(1, 3))
    with ingested(settings) as con:
        sources = [pair.comparison.basis for pair in compare_study(con, "asked").pairs]
    assert sources == ["3 repeats and 512 prompts, with the scatter of 1 like cell and 3 cells measured before"] * 2
