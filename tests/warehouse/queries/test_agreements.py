"""Whether arms wrote the same, from bundles to the share beside the ratio."""

from __future__ import annotations

from typing import Any

import pytest

from cli.verbs.analyse.compare import _same
from lab.comparison.agreement import Agreement
from lab.study import Sampling
from tests.warehouse.studies import REQUESTS, TOKENS, RunSpec, write
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparisons import agreements, compare_study
from warehouse.queries.connect import open_warehouse
from warehouse.settings import Settings

CHARACTERS = 4 * TOKENS


def agreed(
    settings: Settings, ending: str, every: int = 1, telling: tuple[bool, bool] = (False, False), **changes: Any
) -> Agreement:
    """Of an arm of whose outputs every so-manieth ends so, and a baseline of which none does."""
    write(settings, RunSpec("plain", 0, reports_token_ids=telling[0]), **changes)
    write(settings, RunSpec("other", 0, ending=ending, ending_every=every, reports_token_ids=telling[1]), **changes)
    ingest_all(settings)
    with open_warehouse(settings.warehouse_file) as con:
        ((_, found),) = agreements(con, compare_study(con, "small"))
    return found


def test_outputs_that_differ_say_about_where(settings: Settings) -> None:
    found = agreed(settings, "." * 32)
    assert (found.same, len(found.pairs)) == (0, REQUESTS)
    assert found.median_first_differing_character == CHARACTERS - 32
    assert found.median_first_differing_token is None  # no server told the tokens themselves
    assert found.median_estimated_first_differing_token == TOKENS - 8
    assert (found.baseline_degenerate_share, found.candidate_degenerate_share) == (0.0, 0.0)


def test_outputs_that_differ_say_exactly_where_if_both_engines_tell_the_tokens(settings: Settings) -> None:
    found = agreed(settings, "!" * 12, every=4, telling=(True, True))
    assert (found.same, len(found.pairs)) == (REQUESTS - REQUESTS // 4, REQUESTS)
    assert found.median_first_differing_character == CHARACTERS - 12
    assert found.median_first_differing_token == found.median_estimated_first_differing_token == TOKENS - 3
    assert _same(found) == f"75%, else from token {TOKENS - 2}"


def test_the_tokens_of_one_arm_alone_are_held_against_nothing(settings: Settings) -> None:
    found = agreed(settings, "!" * 12, every=4, telling=(True, False))
    assert (found.median_first_differing_token, found.median_estimated_first_differing_token) == (None, TOKENS - 3)
    assert _same(found) == f"75%, else from about token {TOKENS - 2}"


def test_an_arm_that_goes_round_in_a_loop_is_told_from_its_baseline(settings: Settings) -> None:
    found = agreed(settings, "and so on " * 20, every=24)  # more of them would make the run invalid
    assert (found.baseline_degenerate_share, found.candidate_degenerate_share) == (0.0, 2 / REQUESTS)
    assert found.same == REQUESTS - 2


def test_sampled_outputs_are_not_held_against_each_other(settings: Settings) -> None:
    found = agreed(settings, "." * 32, sampling=Sampling(temperature=0.7))
    assert (found.same_share, found.pairs) == (None, ())
    assert found.candidate_degenerate_share == pytest.approx(0.0)
