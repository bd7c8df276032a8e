"""What several runs show together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from lab.metrics.measure import Value
from lab.metrics.records import RunRecord
from lab.study import Load, Speculation
from lab.study.arm import SCHEDULE
from lab.validity import STUDY_CHECKS, Severity, Skipped, StudyRun, judge_study
from tests.lab.validity.test_lies import OF_A_STUDY
from tests.warehouse.runs import cell, circumstances, run_record

BASELINE = {"name": "plain", "baseline": True}
DRAFT = Speculation(method="draft_model", model="draft", num_speculative_tokens=3)
FORCED = DRAFT.model_copy(update={"options": {"rejection_sample_method": "synthetic"}})
BASELINE_CONFIG = {"max_num_batched_tokens": "8192", "speculative_config": "None", "port": "1"}
OUTPUTS = {f"p{place}": f"output {place}" for place in range(100)}
Study = dict[tuple[str, int, int], RunRecord]


def study(**candidate: Any) -> Study:
    """Two arms, two concurrencies, two repeats, interleaved (A B B A); `candidate` changes the drafted arm's runs."""
    runs: Study = {}
    order = [("plain", 0), ("drafted", 0), ("drafted", 1), ("plain", 1)]
    for place, (arm, repeat) in enumerate(order):
        for streams in (1, 8):
            changes: dict[str, Any] = {
                "run_id": f"{arm}-{streams}-{repeat}",
                "arm": BASELINE if arm == "plain" else {"name": "drafted", "speculation": DRAFT},
                "is_baseline": arm == "plain",
                "load": Load(max_concurrency=streams, num_prompts=16),
                "repeat": repeat,
                "started_at": f"2026-11-21T0{place}:0{streams}:00+00:00",
                "prompts_seed": 0,
                "identity": cell(f"{arm}-{streams}"),
                "circumstances": circumstances(effective_config=BASELINE_CONFIG),
            }
            runs[arm, streams, repeat] = run_record(**changes | (candidate if arm == "drafted" else {}))
    return runs


def with_figures(runs: Study, **same: Value) -> list[StudyRun]:
    """Each run with figures of its own, or with these."""
    figures = {"output_tok_per_s": 100.0, "ttft_mean_ms": 50.0, "e2e_mean_ms": 900.0}
    return [
        StudyRun(run, {name: value + place for name, value in figures.items()} | same, OUTPUTS)
        for place, run in enumerate(runs.values())
    ]


def with_outputs(differing: int, of_repeats: int = 0) -> list[StudyRun]:
    """So many outputs of the drafted arm are not the baseline's, and so many of its second repeat not its first's."""
    drafted = OUTPUTS | {f"p{place}": "other" for place in range(differing)}
    again = OUTPUTS | {f"p{place}": "again" for place in range(of_repeats)}
    return [
        study_run._replace(
            outputs=drafted if not study_run.run.is_baseline else again if study_run.run.repeat else OUTPUTS
        )
        for study_run in with_figures(study())
    ]


def priced(*hardware: str) -> list[StudyRun]:
    """The baseline on the first kind of hardware, the other arm on the last one."""
    runs = with_figures(study(circumstances=circumstances(hardware=hardware[-1])))
    return [study_run._replace(price_usd_per_hour=41.62) for study_run in runs]


def config(**changes: str) -> dict[str, Any]:
    return {"circumstances": circumstances(effective_config=BASELINE_CONFIG | changes)}


def only(keep: Callable[[tuple[str, int, int]], bool]) -> list[StudyRun]:
    return with_figures({key: run for key, run in study().items() if keep(key)})


def forced_at_one_load() -> list[StudyRun]:
    runs = study()
    arm = {"name": "forced", "speculation": FORCED}
    runs["drafted", 8, 1] = RunRecord.model_validate(runs["drafted", 8, 1].model_dump() | {"arm": arm})
    return with_figures(runs)


def one_arm_after_the_other() -> list[StudyRun]:
    runs = study()
    late = {"started_at": "2026-11-22T00:00:00+00:00"}
    return with_figures(
        {
            key: run if key[0] == "plain" else RunRecord.model_validate(run.model_dump() | late)
            for key, run in runs.items()
        }
    )


HERE = circumstances().hardware
SAME = {"output_tok_per_s": 123.4567, "ttft_mean_ms": 45.6789, "e2e_mean_ms": 999.25}


def remembering(*lengths: float, launch: int = 0, **speculation: Any) -> list[StudyRun]:
    """A drafted arm's cells on one engine start, with these acceptance lengths in the order of measuring."""
    arm = {"name": "drafted", "speculation": DRAFT.model_copy(update=speculation)}
    runs = with_figures(study(arm=arm, launch_index=launch))
    drafted_runs = sorted((run for run in runs if not run.run.is_baseline), key=lambda run: run.run.started_at)
    plain = [run for run in runs if run.run.is_baseline]
    return plain + [
        run._replace(metrics={**run.metrics, "acceptance_length": length})
        for run, length in zip(drafted_runs, lengths, strict=True)
    ]


def in_rounds(slow_s: float = 1.0) -> list[StudyRun]:
    """Three rounds a run. The second one of the drafted arm's last run is five times as slow, and as long as given."""
    steady = {"duration_s": 1.0, "output_tok_per_s": 50.0, "tpot_p50_ms": 20.0}
    slow = {"duration_s": slow_s, "output_tok_per_s": 10.0, "tpot_p50_ms": 22.0}
    return [
        run._replace(rounds=[steady, slow if run.run.run_id == "drafted-8-1" else steady, steady])
        for run in with_figures(study())
    ]


def on_slots(*slowness: float, repeats: int = 4, **around: Any) -> list[StudyRun]:
    """Both arms at one load, each repeat on the next slot; every run's figures scatter by some percent."""
    runs = []
    for repeat in range(repeats * len(slowness)):
        slot, slow = repeat % len(slowness), slowness[repeat % len(slowness)]
        for arm, scatter in (("plain", 1 + 0.01 * (repeat % 3)), ("drafted", 2 - 0.01 * (repeat % 5))):
            here = circumstances(effective_config=BASELINE_CONFIG, slot=slot + 1, **(around if slot == 0 else {}))
            changes: dict[str, Any] = {"run_id": f"{arm}-{repeat}", "repeat": repeat, "circumstances": here}
            started_at = f"2026-11-21T{repeat:02}:{int((arm == 'plain') == (repeat % 2 == 0)):02}:00+00:00"
            run = run_record(**study()[arm, 1, 0].model_dump() | changes | {"started_at": started_at})
            figures = {"output_tok_per_s": 100 * scatter / slow, "tpot_p50_ms": 20 * slow / scatter}
            runs.append(StudyRun(run, figures, OUTPUTS))
    return runs


def on_hosts(*hosts: tuple[str, str], slow: float = 1.0) -> list[StudyRun]:
    """Repeats of one cell on two arms, each repeat on these hosts for its arms; those on w2 are so much slower."""
    runs = []
    for repeat, pair in enumerate(hosts):
        for number, (arm, host) in enumerate(zip(("plain", "drafted"), pair, strict=True)):
            here = circumstances(effective_config=BASELINE_CONFIG, host=host)
            changes: dict[str, Any] = {"run_id": f"{arm}-{repeat}", "repeat": repeat, "circumstances": here}
            minute = number if repeat % 2 else 1 - number
            run = run_record(
                **study()[arm, 1, 0].model_dump()
                | changes
                | {"started_at": f"2026-11-21T{repeat:02}:{minute:02}:00+00:00"}
            )
            throughput = (100 + repeat % 3 + number) / (slow if host == "w2" else 1.0)
            runs.append(StudyRun(run, {"output_tok_per_s": throughput}, OUTPUTS))
    return runs


MOVED = [("w1", "w1")] * 4 + [("w2", "w2")] * 4
TRAPS: tuple[tuple[str, Severity, str, Callable[[], list[StudyRun]]], ...] = (
    (
        "identical_figures",
        "warning",
        (
            "8 runs have the same figures to the last digit: output_tok_per_s 123.457, ttft_mean_ms 45.6789, "
            "e2e_mean_ms 999.25."
        ),
        lambda: with_figures(study(), **SAME),
    ),
    (
        "identical_figures",
        "warning",
        (
            "8 runs have the same figures on 2 kinds of hardware (2-core processor, H200): output_tok_per_s "
            "123.457, ttft_mean_ms 45.6789, e2e_mean_ms 999.25."
        ),
        lambda: with_figures(study(circumstances=circumstances(hardware="H200")), **SAME),
    ),
    (
        "draft_remembers",
        "invalid",
        (
            "The acceptance length of 'drafted' rose from cell to cell on one engine start (2, 2.3, 3, 2.97 tokens a "
            "round): its draft remembers the answers to the prompts that it was sent before."
        ),
        lambda: remembering(2.0, 2.3, 3.0, 2.97),
    ),
    (
        "single_repeat",
        "warning",
        "4 of 4 cells were measured only once, so their variation is unknown.",
        lambda: only(lambda key: key[2] == 0),
    ),
    (
        "single_repeat",
        "warning",
        "1 of 4 cells were measured only once, so their variation is unknown.",
        lambda: only(lambda key: key != ("drafted", 8, 1)),
    ),
    (
        "single_concurrency",
        "note",
        "Everything was measured at 8 streams; a speed-up holds only where it was measured.",
        lambda: only(lambda key: key[1] == 8),
    ),
    (
        "baseline_of_other_conditions",
        "invalid",
        "Arms 'drafted' were measured under other conditions than the baseline: hardware 2-core processor -> H200.",
        lambda: with_figures(study(circumstances=circumstances(hardware="H200"))),
    ),
    (
        "baseline_of_other_engine",
        "warning",
        "Arms 'drafted' ran on another engine than the baseline: version 0.32.0 -> 0.14.1.",
        lambda: with_figures(study(circumstances=circumstances(engine_version="0.14.1"))),
    ),
    (
        "settings_differ",
        "warning",
        (
            "Arms 'drafted' have other settings, apart from speculation, than the baseline: max_num_batched_tokens "
            "8192 -> 2048."
        ),
        lambda: with_figures(study(**config(max_num_batched_tokens="2048"))),
    ),
    (
        "synthetic_acceptance_mixed",
        "invalid",
        "1 of 4 runs with speculation have a forced acceptance, beside real ones: arms 'forced'.",
        forced_at_one_load,
    ),
    (
        "not_interleaved",
        "note",
        (
            "All repeats of 'drafted' were measured before or after all of the baseline, so a machine that "
            "changes over the hours favours one of them."
        ),
        one_arm_after_the_other,
    ),
    (
        "rounds_differ",
        "note",
        (
            "Rounds of 'drafted' that sent the same prompts lie up to 5 times apart in throughput: 50, 10 tok/s in "
            "the order of measuring (reference/code/16, c8-n16, round 2), more than 3 times in 1 of 6 rounds; those of "
            "other arms 1 times (median)."
        ),
        in_rounds,
    ),
    (
        "slot_differs",
        "warning",
        "On slot 2 the throughput was 9.82 % lower than usual on its like, in 8 runs (compared with slots 1, 3).",
        lambda: on_slots(1.0, 1.12, 1.0),
    ),
    (
        "slot_differs",
        "note",
        "The slots that measured this study differ (driver): each was compared with its like alone.",
        lambda: on_slots(1.0, 1.0, 1.0, driver_version="580.1"),
    ),
    (
        "host_differs",
        "note",
        "This study was measured on 2 hosts: w1 (8 runs), w2 (8 runs).",
        lambda: on_hosts(*MOVED),
    ),
    (
        "host_differs",
        "warning",
        (
            "In 2 of 4 repeats of a cell no host measured all arms (w1, w2): what was measured on different hosts is "
            "not compared."
        ),
        lambda: on_hosts(("w1", "w2"), ("w1", "w1"), ("w2", "w1"), ("w1", "w1")),
    ),
    (
        "host_differs",
        "warning",
        "On host w2 the throughput was 33.3 % lower than usual on its like, in 16 runs (compared with host w1).",
        lambda: on_hosts(*(MOVED * 2), slow=1.5),
    ),
    (
        "outputs_differ",
        "note",
        (
            "Arm 'drafted' gave the same output as the baseline for 396 of 400 answers to 100 prompts (99 %; 95 "
            "% interval 94.6 % to 99.8 %); the baseline's own repeats agree for 100 %."
        ),
        lambda: with_outputs(1),
    ),
    (
        "outputs_differ",
        "warning",
        (
            "Arm 'drafted' gave the same output as the baseline for 200 of 400 answers to 100 prompts (50 %; 95 "
            "% interval 40.4 % to 59.6 %); the baseline's own repeats agree for 100 %."
        ),
        lambda: with_outputs(50),
    ),
    (
        "outputs_differ",
        "note",
        (
            "Arm 'drafted' gave the same output as the baseline for 200 of 400 answers to 100 prompts (50 %; 95 "
            "% interval 40.4 % to 59.6 %); the baseline's own repeats agree for 50 %."
        ),
        lambda: with_outputs(50, of_repeats=50),
    ),
    (
        "price_without_date",
        "note",
        "Costs follow from the study's own price, 41.62 USD an hour, which has no date and no source.",
        lambda: priced(HERE),
    ),
    (
        "price_without_date",
        "warning",
        (
            "Costs follow from the study's own price, 41.62 USD an hour, which has no date and no source, and is "
            "the same for 2 kinds of hardware (2-core processor, H200)."
        ),
        lambda: priced(HERE, "H200"),
    ),
)


@pytest.mark.parametrize(
    ("check", "severity", "sentence", "runs"), TRAPS, ids=[f"{t[0]}-{n}" for n, t in enumerate(TRAPS)]
)
def test_a_study_that_shows_the_trap_is_told_so(
    check: str, severity: Severity, sentence: str, runs: Callable[[], list[StudyRun]]
) -> None:
    fired = [finding for finding in judge_study(runs()).findings if finding.check == check]
    assert len(fired) == 1
    assert fired[0].sentence == sentence
    assert fired[0].severity == severity
    run_ids = {run.run_id for run, *_ in runs()}
    assert set(fired[0].run_ids) <= run_ids
    assert fired[0].run_ids or check == "single_concurrency"


def test_every_check_of_a_study_is_provoked_above() -> None:
    of_lies = {*(name for _, name, *_ in OF_A_STUDY), "starts_differ"}  # tests/lab/validity/test_lies.py
    assert {name for name, *_ in TRAPS} | of_lies == {check.name for check in STUDY_CHECKS}


def test_a_round_too_short_to_measure_is_compared_with_none() -> None:
    assert "rounds_differ" not in {finding.check for finding in judge_study(in_rounds(slow_s=0.1)).findings}


def test_a_healthy_study_is_told_nothing() -> None:
    verdict = judge_study(with_figures(study(**config(speculative_config="SpeculativeConfig(k=3)", port="2"))))
    assert (verdict.findings, verdict.skipped) == ((), ())


def test_what_is_unknown_of_one_of_them_is_not_compared() -> None:
    unknown = circumstances(engine_version=None, target_digest="abc", driver_version="580", effective_config={})
    assert judge_study(with_figures(study(circumstances=unknown, identity=None, prompts_seed=None))).findings == ()


def test_failed_runs_are_left_out() -> None:
    runs = study()
    runs["drafted", 8, 1] = RunRecord.model_validate(
        runs["drafted", 8, 1].model_dump() | {"status": "failed", "error": "died", "endpoint": "chat"}
    )
    assert [finding.check for finding in judge_study(with_figures(runs)).findings] == ["single_repeat"]


def test_without_outputs_an_arm_and_its_baseline_cannot_be_compared() -> None:
    verdict = judge_study([study_run._replace(outputs=None) for study_run in with_figures(study())])
    assert verdict.skipped == (
        Skipped("outputs_differ", "the outputs of an arm and of the baseline for the same prompts"),
    )


def test_no_runs_are_no_study() -> None:
    verdict = judge_study([])
    assert (verdict.valid, verdict.findings, verdict.skipped) == (True, (), ())


@pytest.mark.parametrize(
    "runs",
    [
        lambda: remembering(2.0, 2.1, 2.19, 2.19),  # by less than a fifth
        lambda: remembering(2.0, 3.0, 2.0, 3.0),  # back and forth
        lambda: remembering(1.0, 1.1, 1.1, 1.2),  # next to nothing
        lambda: remembering(2.0, 2.3, 3.0, 3.0, options={SCHEDULE: [[1, 4, 3]]}),
    ],
)
def test_an_acceptance_that_need_not_be_a_memory_is_not_called_one(runs: Callable[[], list[StudyRun]]) -> None:
    assert "draft_remembers" not in {finding.check for finding in judge_study(runs()).findings}


@pytest.mark.parametrize(
    "runs",
    [
        lambda: on_slots(1.0, 1.0, 1.0),  # they scatter by less
        lambda: on_slots(1.0, 1.03, 1.0),
        lambda: on_slots(1.0, 1.2, repeats=1),  # two runs of each slot
        lambda: on_slots(1.2),  # it has no like
    ],
)
def test_slots_that_may_be_alike_are_not_said_to_differ(runs: Callable[[], list[StudyRun]]) -> None:
    assert "slot_differs" not in {finding.check for finding in judge_study(runs()).findings}


@pytest.mark.parametrize(("slowness", "most", "least"), [(1.0, 0.1, 0.0), (1.3, 1.0, 0.9)])
def test_blocks_that_share_the_hour_name_no_slot_by_chance(slowness: float, most: float, least: float) -> None:
    """Three slots of three blocks each; blocks differ by 5 % and runs by 3 %. A slot that is slower is found."""
    rng = np.random.default_rng(3)
    studied = on_slots(1.0, slowness, 1.0, repeats=3)

    def again() -> list[StudyRun]:
        hours = rng.normal(0, 0.05, 9)
        scattered = []
        for run in studied:
            factor = math.exp(hours[run.run.repeat] + rng.normal(0, 0.03))
            metrics = {"output_tok_per_s": float(str(run.metrics["output_tok_per_s"])) * factor}
            scattered.append(run._replace(metrics=metrics))
        return scattered

    studies = [judge_study(again()).findings for _ in range(60)]
    named = sum("slot_differs" in {finding.check for finding in findings} for findings in studies) / len(studies)
    assert least <= named <= most


def test_of_two_like_slots_the_slower_is_named() -> None:
    def sentences(runs: list[StudyRun]) -> list[str]:
        return [finding.sentence for finding in judge_study(runs).findings if finding.check == "slot_differs"]

    (only,) = sentences(on_slots(1.3, 1.0))
    assert only.startswith("On slot 1 the throughput was 23.2 % lower")
    (apart,) = sentences(on_slots(1.3, 1.0, driver_version="580.1"))
    assert apart.startswith("The slots that measured this study differ (driver)")


@pytest.mark.parametrize(("lengths", "is_named"), [((2.0, 2.0, 2.0, 3.0), True), ((2.0, 2.0, 3.0, 2.0), False)])
def test_a_draft_that_remembers_by_the_last_cell_is_named(lengths: Sequence[float], is_named: bool) -> None:  # noqa: FBT001
    named = {found.check for found in judge_study(remembering(*lengths)).findings}
    assert ("draft_remembers" in named) == is_named


def test_the_first_cell_of_a_start_is_believed_though_the_draft_remembers() -> None:
    (found,) = [
        found for found in judge_study(remembering(2.0, 2.3, 3.0, 3.0)).findings if found.check == "draft_remembers"
    ]
    assert set(found.run_ids) == {"drafted-8-0", "drafted-1-1", "drafted-8-1"}
