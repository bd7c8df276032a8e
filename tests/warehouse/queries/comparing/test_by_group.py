"""Arms by turn and by length of context, and where speculation pays over both axes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lab.comparison.effect import Interval
from lab.comparison.surface import sentence
from lab.errors import QueryError
from lab.metrics.records import RequestRecord
from lab.study import Load, Sessions, Workload
from tests.warehouse.runs import BASELINE_ARM, DRAFT_ARM, request, write_run
from warehouse.ingest.service import ingest_all
from warehouse.published.golden import GoldenLength
from warehouse.queries import slices
from warehouse.queries.comparing.by_group import by_group, surfaces
from warehouse.queries.comparing.documents import contexts_document
from warehouse.queries.connect import open_warehouse
from warehouse.queries.matrix import acceptance_matrix, acceptance_of_arms, beside_golden
from warehouse.queries.slices import Filters
from warehouse.sandbox.runner import run_sql
from warehouse.settings import Settings
from webapp.pages.sql.state import EXAMPLES

WORKLOAD = Workload(category="code", output_tokens=16, sessions=Sessions())
#: Seconds of three tokens after the first, by concurrency and turn: the draft pays alone, and later in a session.
BASE_S = {1: (0.30, 0.30), 16: (0.60, 0.60)}
DRAFT_S = {1: (0.20, 0.15), 16: (0.90, 0.50)}


def turn(number: int, took_s: float, **changes: Any) -> RequestRecord:
    ended_s = 0.2 + took_s
    return request(
        index=number - 1,
        prompt_id=f"s.{number}",
        session_id="s",
        turn=number,
        prompt_tokens=(100, 900)[number - 1],
        chunk_s=(0.2, ended_s),
        chunk_tokens=(1, 3),
        requested_output_tokens=4,
        end_s=ended_s,
        **changes,
    )


@pytest.fixture
def studied(settings: Settings) -> Settings:
    """A baseline and a draft at two concurrencies, three repeats that differ by a per cent or two."""
    told = {"spec_drafts": 2, "spec_draft_tokens": 6, "spec_accepted_tokens": 1}
    later = {"spec_drafts": 1, "spec_draft_tokens": 3, "spec_accepted_tokens": 2}
    for repeat in range(3):
        noise = 1 + 0.01 * repeat
        for concurrency in (1, 16):
            about = {
                "load": Load(max_concurrency=concurrency, num_prompts=16),
                "workload": WORKLOAD,
                "repeat": repeat,
                "launch_index": repeat,
            }
            base = [turn(n + 1, took_s) for n, took_s in enumerate(BASE_S[concurrency])]
            write_run(
                settings.bundles,
                tuple(base),
                run_id=f"b{repeat}{concurrency}",
                arm=BASELINE_ARM,
                is_baseline=True,
                **about,
            )
            first, second = DRAFT_S[concurrency]
            draft = (turn(1, first * noise, **told), turn(2, second * noise, **later))
            write_run(settings.bundles, draft, run_id=f"d{repeat}{concurrency}", arm=DRAFT_ARM, **about)
    ingest_all(settings)
    return settings


def test_each_turn_has_its_acceptance_and_its_ratio_to_the_baseline(studied: Settings) -> None:
    with open_warehouse(studied.warehouse_file) as con:
        groups = by_group(con, "job-1", "turn")
    drafts = {(g.concurrency, g.turn): g for g in groups if g.arm == "draft"}
    assert [g.length.value for g in drafts.values() if g.length] == [1.5, 3.0, 1.5, 3.0]
    later = drafts[1, 2]
    assert (later.requests, later.runs, later.word) == (3, 3, "faster")
    assert later.mean_ms == pytest.approx(50.5, abs=0.01)
    assert later.ratio is not None
    assert later.ratio.value == pytest.approx(0.505, abs=0.001)
    assert [g.ratio for g in groups if g.is_baseline] == [None] * 4


def test_the_surface_has_a_break_even_for_each_context_and_the_price_of_a_round(studied: Settings) -> None:
    with open_warehouse(studied.warehouse_file) as con:
        found = surfaces(con, "job-1")
    (surface,) = found.values()
    assert (surface.contexts, surface.concurrencies) == ((256, 1024), (1, 16))
    gains = {(cell.context_tokens, cell.concurrency): cell for cell in surface.cells}
    assert gains[256, 1].gain.value == pytest.approx(1.485, abs=0.01)
    assert gains[256, 16].gain.value == pytest.approx(0.66, abs=0.01)
    needed = gains[1024, 1].needed_length
    assert needed is not None
    assert needed.value == pytest.approx(3.0 / 1.98, abs=0.01)
    (crossing,) = surface.lines[256].crossings
    assert 3 < crossing.concurrency < 5
    assert surface.lines[1024].answer == "pays everywhere measured"
    assert sentence(surface).endswith("; up to 1,024 it pays everywhere measured")


def test_programs_read_the_surface_as_a_document(studied: Settings) -> None:
    with open_warehouse(studied.warehouse_file) as con:
        found = surfaces(con, "job-1")
    document: Any = contexts_document(found)["draft"]
    assert document["sentence"] == sentence(found["draft"])
    first = document["cells"][0]
    places = [(cell["concurrency"], cell["context_tokens"]) for cell in document["cells"]]
    assert places == [(1, 256), (16, 256), (1, 1024), (16, 1024)]
    assert (first["verdict"], first["requests"], first["acceptance_length"]) == ("faster", 3, 1.5)
    assert first["needed_length"]["value"] == pytest.approx(1.5 / first["gain"]["value"])


def test_the_examples_of_the_sql_page_find_turns_and_contexts(studied: Settings) -> None:
    by_turn, by_context = (
        run_sql(studied, example.sql).table.to_pandas()
        for example in EXAMPLES
        if "by turn" in example.title or "length of context" in example.title
    )
    alone = by_turn[(by_turn["arm"] == "draft") & (by_turn["concurrency"] == 1)]
    assert alone[["turn", "acceptance_length", "requests"]].to_numpy().tolist() == [[1, 1.5, 3], [2, 3.0, 3]]
    assert sorted(set(by_context["context_tokens"])) == [256, 1024]


def test_explore_draws_the_groups_of_each_run(studied: Settings) -> None:
    chosen = Filters(chosen=(("arm", ("draft",)), ("concurrency", ("1",))))
    with open_warehouse(studied.warehouse_file) as con:
        by_turn = slices.runs(con, chosen, ["acceptance_length", "tpot_mean_ms", "output_tok_per_s"], ("turn",))
        both = slices.runs(con, chosen, ["tpot_p50_ms"], ("turn", "context"))
    assert by_turn["turn"].tolist() == ["1", "2"] * 3
    assert by_turn["acceptance_length"].tolist() == [1.5, 3.0] * 3
    assert by_turn["output_tok_per_s"].isna().all()
    assert list(zip(both["turn"], both["context"], strict=True))[:2] == [("1", "256"), ("2", "1024")]


def test_what_groups_of_requests_do_not_have_is_refused(studied: Settings) -> None:
    with open_warehouse(studied.warehouse_file) as con:
        with pytest.raises(QueryError, match="any percentile is of whole runs"):
            slices.runs(con, Filters(), ["ttft_p72.5_ms"], ("turn",))
        with pytest.raises(QueryError, match="'day' is not a filter"):
            slices.runs(con, Filters(), [], ("day",))


def test_the_matrix_counts_a_session_once_and_golden_lengths_stand_beside(studied: Settings) -> None:
    with open_warehouse(studied.warehouse_file) as con:
        (cell,) = acceptance_matrix(con, "job-1")
        (together,) = acceptance_of_arms(con, "job-1")
    assert (cell.arm, cell.category, cell.prompts, cell.rounds) == ("draft", "code", 1, 18)
    assert cell.length.value == together.length.value == 2.0
    golden = [GoldenLength("Reference", "thinking_on", k, 2.5) for k in (3, 4)]
    sure = replace(together, length=Interval(2.0, 1.8, 2.2))
    beside, alone = beside_golden(golden, [sure])
    assert (beside.ours, beside.same_model, beside.word) == (sure, True, "below")
    assert (alone.ours, alone.word) == (None, "")
    assert [row.word for row in beside_golden(golden[:1], [together])] == [""]


def test_a_metric_that_is_not_known_by_turn_is_refused(studied: Settings) -> None:
    with (
        open_warehouse(studied.warehouse_file) as con,
        pytest.raises(QueryError, match="'output_tok_per_s' is not known by turn or context"),
    ):
        by_group(con, "job-1", "turn", "output_tok_per_s")  # type: ignore[arg-type]
