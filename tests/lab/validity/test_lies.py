"""Servers that lie are caught, each by the check for it, and an honest pair is told nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.metrics.request_table import RequestTable
from lab.validity import Severity, StudyRun, judge_study
from tests.lab.metrics.test_rounds import moved, window
from tests.lab.validity.lies import Server, pair

#: What a run may be told because it is short or drafts, and a study because it is small.
OF_SIZE = {"few_requests", "several_tokens_a_chunk", "single_concurrency", "single_repeat", "outputs_differ"}
OF_SIZE |= {"long_tail", "configuration_unknown", "short_warm_up", "acceptance_only_of_the_run", "not_interleaved"}
OF_A_RUN: tuple[tuple[Server, str, Severity, str], ...] = (
    (Server("writes at once"), "events_in_bursts", "warning", "where a step makes 1 at most"),
    (Server("merges", drafts=True), "events_in_bursts", "warning", "where a step makes 4 at most"),
    (Server("shared"), "server_shared", "invalid", "up to 9 requests at once in 1 of 1 second"),
)
OF_A_STUDY: tuple[tuple[Callable[[], list[StudyRun]], str, Severity, str], ...] = (
    (lambda: pair(Server("cuts")), "prompt_tokens_differ", "invalid", "Arm 'arm' read "),
    (lambda: pair(Server("template")), "prompt_tokens_differ", "invalid", "(48 of 48 differ, by +37 in the median)"),
    (lambda: pair(Server("half text")), "text_per_token_differs", "invalid", "of arm 'arm' holds 0.5"),
    (lambda: pair(Server("refuses")), "prompts_not_answered", "warning", "failed 8 of 48 requests that the baseline"),
    (
        lambda: pair(Server("slower later")),
        "repeats_differ",
        "warning",
        "of 'arm' lie up to 2.71 times apart in median TPOT",
    ),
    (lambda: learning(1.5, 3.7), "draft_remembers", "invalid", "repeat to repeat (1.5, 3.7 tokens a round)"),
)


def learning(*lengths: float) -> list[StudyRun]:
    """An arm whose acceptance length is this in its repeats."""
    runs = pair(Server(drafts=True), repeats=len(lengths))
    return [
        run
        if run.run.is_baseline
        else run._replace(metrics={**run.metrics, "acceptance_length": lengths[run.run.repeat]})
        for run in runs
    ]


@pytest.mark.parametrize(
    ("server", "check", "severity", "words"), OF_A_RUN, ids=[f"{s.lie}{' drafting' * s.drafts}" for s, *_ in OF_A_RUN]
)
def test_a_lie_within_a_run_is_caught(server: Server, check: str, severity: Severity, words: str) -> None:
    finding = replace(server, arm="arm").run().finding(check)
    assert words in finding.sentence
    assert finding.severity == severity


@pytest.mark.parametrize(("runs", "check", "severity", "words"), OF_A_STUDY, ids=[case[3] for case in OF_A_STUDY])
def test_a_lie_that_only_a_comparison_shows_is_caught(
    runs: Callable[[], list[StudyRun]], check: str, severity: Severity, words: str
) -> None:
    found = [finding for finding in judge_study(runs()).findings if finding.check == check]
    assert [finding.severity for finding in found] == [severity]
    assert words in found[0].sentence


def test_merged_events_are_told_with_the_tpot_that_is_true() -> None:
    sentence = Server("merges", noise=0.001).run().finding("events_in_bursts").sentence
    assert sentence.endswith("TPOT, 8 ms, counts no time for them; over the tokens after them it is 11.5 ms.")


def test_pauses_are_told_with_the_throughput_without_them() -> None:
    honest, sentence = Server().run(), Server("stalls").run().finding("few_answers_paused").sentence
    true_tok_per_s = 24 * len(honest.requests) / (honest.run.duration_s or 0.0)
    assert sentence.endswith("Throughput is 169.6 tok/s with them, and about 302.1 without.")
    assert abs(302.1 / true_tok_per_s - 1) < 0.02


def test_reading_the_first_prompts_is_no_pause_of_an_answer() -> None:
    findings = Server("reads all first", streams=8).run().judged().findings
    assert "few_answers_paused" not in {finding.check for finding in findings}


def test_reading_the_first_prompts_of_each_window_is_no_pause_of_an_answer() -> None:
    first = Server("reads all first", streams=8, prompts=8).run()
    length_s = first.run.duration_s or 0.0
    requests = tuple(
        replace(moved(request, number * length_s, number), index=request.index + 8 * number)
        for number in range(3)
        for request in first.requests
    )
    run = first.run.model_copy(
        update={
            "windows": tuple(window(number * length_s, (number + 1) * length_s) for number in range(3)),
            "duration_s": 3 * length_s,
        }
    )
    findings = replace(first, run=run, requests=requests).judged().findings
    assert "few_answers_paused" not in {finding.check for finding in findings}


HONEST = st.builds(
    Server,
    streams=st.sampled_from([1, 2, 4, 8, 16]),
    prompts=st.sampled_from([24, 48]),
    tokens=st.integers(16, 64),
    first_s=st.floats(0.02, 0.5),
    step_s=st.floats(0.004, 0.02),
    noise=st.floats(0.01, 0.15),
    seed=st.integers(0, 2**16),
    accepted=st.floats(0.2, 2.5),
    drafts=st.booleans(),
)


@settings(max_examples=40, deadline=None)
@given(HONEST)
def test_an_honest_server_is_told_nothing_whatever_its_speed(server: Server) -> None:
    findings = replace(server, arm="arm").run().judged().findings
    assert {finding.check for finding in findings} <= OF_SIZE, findings


@settings(max_examples=15, deadline=None)
@given(HONEST, st.integers(2, 3))
def test_an_honest_pair_is_told_nothing_whatever_its_speed(server: Server, repeats: int) -> None:
    same = {"streams": server.streams, "prompts": server.prompts, "tokens": server.tokens, "noise": server.noise}
    findings = judge_study(pair(server, repeats, **same)).findings
    assert {finding.check for finding in findings} <= OF_SIZE, findings


@pytest.mark.parametrize("factor", [1.05, 1.45])
def test_starts_are_named_where_all_cells_differ_and_by_more_than_a_tenth(factor: float) -> None:
    def started(streams: int) -> list[StudyRun]:
        both = pair(Server(streams=streams, noise=0.02), streams=streams, noise=0.02)
        later = [run for run in both if run.run.repeat and not run.run.is_baseline]
        return [run if run not in later else _faster(run, factor) for run in both]

    runs = [run for streams in (1, 2, 4) for run in started(streams)]
    found = [finding for finding in judge_study(runs).findings if finding.check == "starts_differ"]
    assert len(found) == (factor > 1.1)
    assert all(
        "faster in engine start 4 than in engine start 2, in the mean over 3 cells." in f.sentence for f in found
    )


def test_all_repeats_of_an_engine_start_count_not_the_last_alone() -> None:
    def on_two_starts(streams: int) -> list[StudyRun]:
        both = pair(Server(streams=streams, noise=0.02), 4, streams=streams, noise=0.02)
        *runs, last = (
            run._replace(run=run.run.model_copy(update={"launch_index": run.run.repeat // 2}))
            for run in both
            if not run.run.is_baseline
        )
        return [*runs, _faster(last, 1.18)]

    findings = judge_study([run for streams in (1, 2, 4) for run in on_two_starts(streams)]).findings
    assert "starts_differ" not in {finding.check for finding in findings}


def _faster(run: StudyRun, factor: float) -> StudyRun:
    speed = run.metrics["output_tok_per_s"]
    assert isinstance(speed, float)
    return run._replace(metrics={**run.metrics, "output_tok_per_s": factor * speed})


def test_windows_below_a_second_are_not_compared_between_repeats() -> None:
    short = pair(Server("slower later", first_s=0.02, step_s=0.004, tokens=8))
    assert all((run.run.duration_s or 0.0) < 1.0 for run in short if not run.run.is_baseline)
    assert "repeats_differ" not in {finding.check for finding in judge_study(short).findings}


@pytest.mark.parametrize(("lengths", "rises"), [((1.5, 1.8), True), ((1.5, 1.59), False), ((3.7, 1.5), False)])
def test_only_a_draft_that_gains_from_repeat_to_repeat_remembers(lengths: Sequence[float], rises: bool) -> None:  # noqa: FBT001
    assert ("draft_remembers" in {finding.check for finding in judge_study(learning(*lengths)).findings}) == rises


def test_speculation_that_answers_or_counters_show_is_seen() -> None:
    silent = replace(Server("silent", drafts=True), arm="arm").run()
    answers_tell = replace(silent, requests=tuple(replace(request, spec_drafts=0) for request in silent.requests))
    bursts = replace(Server(drafts=True), arm="arm").run()
    for run in (answers_tell, bursts):
        assert "speculation_not_seen" not in {finding.check for finding in run.judged().findings}


def test_a_client_that_reads_late_accuses_no_server() -> None:
    late = Server("writes at once").run().with_client(loop_lag_p99_ms=20.0)
    verdict = late.judged()
    assert "events_in_bursts" in {skipped.check for skipped in verdict.skipped}
    assert len(RequestTable.of(late.requests)) == 24
