"""Arms by turn and by length of context, and where speculation pays over both axes."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from lab.comparison.effect import Interval
from lab.comparison.surface import prediction_sentences, sentence
from lab.errors import QueryError
from lab.published.golden import GoldenLength
from lab.study import Load
from tests.warehouse.queries.comparing.session_study import WORKLOAD, ingest_sessions, turn
from tests.warehouse.runs import BASELINE_ARM, DRAFT_ARM, cell, request, write_run
from warehouse.ingest.service import ingest_all
from warehouse.queries import slices
from warehouse.queries.comparing.by_group import by_group, surfaces
from warehouse.queries.comparing.comparisons import compare_study
from warehouse.queries.comparing.documents import contexts_document
from warehouse.queries.connect import open_warehouse
from warehouse.queries.matrix import acceptance_matrix, acceptance_of_arms, beside_golden
from warehouse.queries.slices import Filters
from warehouse.sandbox.runner import run_sql
from webapp.pages.sql.state import EXAMPLES


@pytest.fixture(scope="module")
def studied(shared: Settings) -> Settings:
    ingest_sessions(shared)
    return shared


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


def test_two_turns_of_the_only_session_are_no_two_prompts(studied: Settings) -> None:
    with open_warehouse(studied.warehouse_file) as con:
        pairs = compare_study(con, "job-1", "e2e_mean_ms").pairs
    assert {pair.comparison.prompts for pair in pairs} == {None}


def test_the_surface_has_a_break_even_and_price_for_each_context(studied: Settings) -> None:
    with open_warehouse(studied.warehouse_file) as con:
        found = surfaces(con, "job-1")
    (surface,) = found.values()
    assert surface.contexts == (256, 1024)
    assert {cell.concurrency for cell in surface.cells} == {1, 16}
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


def test_a_draft_is_held_against_what_another_ones_rounds_cost(settings: Settings) -> None:
    ingest_sessions(settings, "other")
    with open_warehouse(settings.warehouse_file) as con:
        found = surfaces(con, "job-1")
    assert {arm: of_arm.num_speculative_tokens for arm, of_arm in found.items()} == {"draft": 3, "other": 3}
    certain = "in 4 of 4 cells, and in 4 of the 4 whose side is certain"
    assert prediction_sentences(found) == [
        f"By what a round of {known} costs, {other} is on the expected side of 1× {certain}."
        for known, other in (("draft", "other"), ("other", "draft"))
    ]


def test_two_loads_of_one_concurrency_are_compared_apart_and_on_no_map(settings: Settings) -> None:
    """A closed loop and a rate: with the rate the draft takes longer instead of shorter."""
    for repeat, load, arm in itertools.product(
        range(3),
        (Load(max_concurrency=4, num_prompts=16), Load(max_concurrency=4, num_prompts=16, request_rate_rps=2.0)),
        (BASELINE_ARM, DRAFT_ARM),
    ):
        took_s = 0.3 if arm == BASELINE_ARM else (0.6 if load.request_rate_rps else 0.15) * (1 + 0.01 * repeat)
        write_run(
            settings.bundles,
            (turn(1, took_s),),
            run_id=f"{arm.name} {load.name} {repeat}",
            arm=arm,
            is_baseline=arm == BASELINE_ARM,
            load=load,
            workload=WORKLOAD,
            repeat=repeat,
        )
    ingest_all(settings)
    with open_warehouse(settings.warehouse_file) as con:
        drafts = [group for group in by_group(con, "job-1", "turn") if group.arm == "draft"]
        assert surfaces(con, "job-1") == {}
    found: dict[str, Any] = {
        group.pattern: (group.concurrency, group.ratio and group.ratio.value, group.word) for group in drafts
    }
    assert found == {
        "c4-n16": (4, pytest.approx(0.505, abs=0.001), "faster"),
        "c4-n16-2rps-b1": (4, pytest.approx(2.02, abs=0.001), "slower"),
    }


def test_a_control_gets_no_verdict_at_any_turn_and_has_no_map(settings: Settings) -> None:
    for repeat, (name, arm_id, took_s) in itertools.product(
        range(3), (("base", "same", 0.3), ("again", "same", 0.33), ("draft", "other", 0.2))
    ):
        write_run(
            settings.bundles,
            (turn(1, took_s * (1 + 0.001 * repeat)),),
            run_id=f"{name} {repeat}",
            arm=BASELINE_ARM.model_copy(update={"name": name}),
            is_baseline=name == "base",
            workload=WORKLOAD,
            repeat=repeat,
            identity=cell(name, arm_id=arm_id),
        )
    ingest_all(settings)
    with open_warehouse(settings.warehouse_file) as con:
        words = {group.arm: group.word for group in by_group(con, "job-1", "turn")}
        assert words == {"base": None, "again": "control", "draft": "faster"}
        assert list(surfaces(con, "job-1")) == ["draft"]


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
        for title, example in EXAMPLES.items()
        if "by turn" in title or "length of context" in title
    )
    alone = by_turn[(by_turn["arm"] == "draft") & (by_turn["concurrency"] == 1)]
    assert alone[["turn", "acceptance_length", "requests"]].to_numpy().tolist() == [[1, 1.5, 3], [2, 3.0, 3]]
    assert sorted(set(by_context["context_tokens"])) == [256, 1024]


def test_the_query_of_the_documentation_gives_the_length_by_turn(studied: Settings) -> None:
    text = (Path(__file__).parents[4] / "docs" / "numbers.md").read_text()
    (query,) = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    assert run_sql(studied, query).table.to_pylist() == [
        {"arm": "draft", "turn": turn, "length": length} for turn, length in ((1, 1.5), (2, 3.0))
    ] + [{"arm": "no draft", "turn": turn, "length": None} for turn in (1, 2)]


def test_explore_draws_the_groups_of_each_run(studied: Settings) -> None:
    chosen = Filters(chosen=(("arm", ("draft",)), ("concurrency", ("1",))))
    with open_warehouse(studied.warehouse_file) as con:
        by_turn = slices.runs(con, chosen, ["acceptance_length", "tpot_mean_ms", "output_tok_per_s"], ("turn",))
        both = slices.runs(con, chosen, ["tpot_p50_ms"], ("turn", "context"))
    assert by_turn["turn"].tolist() == ["1", "2"] * 3
    assert by_turn["acceptance_length"].tolist() == [1.5, 3.0] * 3
    assert by_turn["output_tok_per_s"].isna().all()
    assert list(zip(both["turn"], both["context"], strict=True))[:2] == [("1", "256"), ("2", "1024")]


def test_turns_and_contexts_are_filters_of_requests(studied: Settings) -> None:
    draft = ("arm", ("draft",))
    second = Filters(chosen=(draft, ("turn", ("2",))))
    with open_warehouse(studied.warehouse_file) as con:
        runs = slices.runs(con, second, ["acceptance_length", "output_tok_per_s"])
        short = slices.runs(con, Filters(chosen=(("context", ("256",)), draft)), ["acceptance_length"], ("turn",))
        found = slices.options(con)
        counts = [slices.count(con, Filters(chosen=(draft, ("turn", turns)))) for turns in (("1", "2"), ("3",))]
        blamed = slices.filters_excluding_everything(con, Filters(chosen=(("turn", ("2",)), ("context", ("256",)))))
    assert runs["acceptance_length"].tolist() == [3.0] * 6
    assert runs["turn"].tolist() == ["2"] * 6
    assert runs["output_tok_per_s"].isna().all()
    assert short[["turn", "context", "acceptance_length"]].drop_duplicates().to_numpy().tolist() == [["1", "256", 1.5]]
    offered = found[found["dimension"].isin(["turn", "context"])]
    assert offered[["dimension", "value", "runs"]].to_numpy().tolist() == [
        ["context", "1024", 12],
        ["context", "256", 12],
        ["turn", "1", 12],
        ["turn", "2", 12],
    ]
    assert counts == [6, 0]
    assert blamed == [("turn", 12), ("context", 12)]


@pytest.mark.parametrize("latency", slices.OF_REQUESTS)
def test_requests_pooled_by_turn_and_context_are_those_of_whole_runs_together(studied: Settings, latency: str) -> None:
    by = ["arm", "concurrency"]
    second = Filters(chosen=(("turn", ("2",)),))
    with open_warehouse(studied.warehouse_file) as con:
        whole = slices.pooled(con, Filters(), latency, by)
        split = slices.pooled(con, Filters(), latency, [*by, "turn", "context"])
        filtered = slices.pooled(con, second, latency, by)
        of_runs = slices.pooled_runs(con, second, latency, by)
    together = split.groupby([*by, "bucket"])["count"].sum().reset_index()
    assert together.to_numpy().tolist() == whole.to_numpy().tolist()
    assert sorted(set(zip(split["turn"], split["context"], strict=True))) == [("1", "256"), ("2", "1024")]
    assert filtered.to_numpy().tolist() == split[split["turn"] == "2"][[*by, "bucket", "count"]].to_numpy().tolist()
    assert of_runs["runs"].tolist() == [3] * 4


def test_steps_of_single_requests_are_those_of_groups(settings: Settings) -> None:
    turns = (1, 8, 9, 16, 17, 32, 33, 100)
    asked = tuple(request(index=place, turn=turn, session_id="s") for place, turn in enumerate(turns))
    write_run(settings.bundles, asked)
    ingest_all(settings)
    every = Filters(validity="any")
    with open_warehouse(settings.warehouse_file) as con:
        groups = slices.runs(con, every, ["ttft_p50_ms"], ("turn",))["turn"].tolist()
        pooled = slices.pooled(con, every, "ttft", ["turn"])["turn"]
    assert sorted(set(pooled)) == sorted(groups) == sorted(["1", "8", "9", "17", "33", "65"])


def test_what_groups_of_requests_do_not_have_is_refused(studied: Settings) -> None:
    with open_warehouse(studied.warehouse_file) as con:
        with pytest.raises(QueryError, match="other percentiles are known for whole runs only"):
            slices.runs(con, Filters(), ["ttft_p72.5_ms"], ("turn",))
        with pytest.raises(QueryError, match="'day' is not a filter"):
            slices.runs(con, Filters(), [], ("day",))
        with pytest.raises(QueryError, match="itl is not known by turn or context: use one of ttft, tpot, e2e"):
            slices.pooled(con, Filters(), "itl", ["turn"])


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
