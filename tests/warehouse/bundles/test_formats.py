"""Bundles of every released format are read, whatever is demanded of studies by now; others say how to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import ValidationError

from host.settings import Settings
from lab.errors import BundleError
from lab.metrics.records import BUNDLE_FORMAT_VERSION, EngineLog, IdleEngine, RunRecord, WorkBeside
from lab.study import Arm, Load, Server, Sessions, Slo, Speculation, Trial, Workload
from lab.study.model_base import Frozen, RecordField
from tests.interchange import samples_read
from tests.warehouse.asking import ask
from tests.warehouse.runs import FORMATS, bundle_of_format, records, write_run
from warehouse.bundles.imported_bundle import read_imported, write_imported
from warehouse.bundles.run_bundle import RUN_FILE, find_bundles, read_bundle, read_log, read_run
from warehouse.bundles.stored_run import READABLE_FORMAT_VERSIONS, stored_form
from warehouse.ingest.service import ingest_all

NEWEST = READABLE_FORMAT_VERSIONS[-1]


def test_there_is_a_bundle_of_every_format_and_the_newest_is_written() -> None:
    assert sorted(read_run(folder).format_version for folder in find_bundles(FORMATS)) == [*READABLE_FORMAT_VERSIONS]
    assert BUNDLE_FORMAT_VERSION == NEWEST


@pytest.mark.parametrize("version", READABLE_FORMAT_VERSIONS)
def test_everything_in_a_bundle_of_each_format_is_read(version: int) -> None:
    folder = FORMATS / f"job-of-format-{version}" / f"run-of-format-{version}"
    bundle = read_bundle(folder)
    run, (answered, failed), (sample,) = bundle.run, records(bundle.requests), bundle.telemetry
    around = run.circumstances
    assert (run.run_id, run.study_name, run.repeat, run.slo) == (
        *(f"run-of-format-{version}", f"format {version}", 1),
        Slo(ttft_ms=500.0),
    )
    assert run.arm == Arm(
        name="draft",
        speculation=Speculation(
            method="draft_model",
            model="reference-draft",
            num_speculative_tokens=3,
            options={"num_speculative_tokens_per_batch_size": [[1, 4, 3]]},
        ),
        flags={"max_model_len": 512, "enforce-eager": True},
        config={"a": [1, {"b": 2}]},
        environment={"X": "1"},
    )
    sessions = Sessions(
        answers="recorded",
        max_turns=2,
        think="fixed",
        think_s=0.5,
        reasoning_field="reasoning_content" if version >= 14 else None,
    )
    assert run.workload == Workload(category="code", output_tokens=16, sessions=sessions, score="contains")
    search = Load(max_concurrency=2, num_prompts=2, find="rate", find_from=2.0)
    assert (run.trial, run.ended_early) == (Trial(search=search, number=0, arrivals_seed=1001), "the SLO is missed")
    assert (run.load.name, run.load.closed_loop) == ("capacity-rate #1 at 2", False)
    assert (run.order, run.until_decided, run.prompts_seed) == ("side_by_side", True, 11)
    assert run.taken_over_from == ("job-before/0" if version >= 16 else None)
    assert run.idle_engines == (IdleEngine(arm="no draft", cpu_percent=0.5),)
    assert run.beside == (WorkBeside(kind="question", what="results", seconds=0.25),)
    assert run.identity is not None
    assert run.counters_after is not None
    assert (run.identity.cell_id, run.counters_after.num_accepted_tokens_per_position) == ("c", (1.0, 1.0, 0.0))
    assert (run.counters_problem, run.reset_problem) == ("the page was silent", "HTTP 500")
    assert (around.command, around.gpus, around.slot) == (("vllm", "serve", "target"), ("NVIDIA H200 (GPU-1)",), 3)
    assert read_log(folder, run) == EngineLog(b"ready\nserved\n", 6, 12)
    assert (sample.gpu_power_w, sample.gpu_other_processes) == (400.0, 0)
    load = (sample.other_cpu_percent, sample.run_queue, sample.memory_pressure_percent, sample.cpu_throttled_percent)
    assert load == ((12.5, 3, 0.5, 4.0) if version >= 14 else (None,) * 4)
    assert (answered.chunk_s, answered.spec_drafts, failed.error) == ((0.2, 0.4, 0.5), 2, "connection reset")
    assert (answered.sent_prompt_tokens, answered.output_token_ids) == (9, (5, 6, 7, 8))
    assert (answered.session_id, answered.turn) == ("s", 1)
    assert (answered.rounds_drafted, answered.rounds_accepted, answered.rounds_count) == ((3, 3), (0, 2), (1, 1))
    apart = (answered.reasoning_tokens, answered.reasoning_chars, answered.first_answer_s, answered.expected)
    assert apart == (1, 2, 0.4, "turn")
    assert (answered.reasoning_rounds, answered.reasoning_accepted_tokens) == (1, 0)
    assert (answered.tests_passed, failed.tests_passed) == (1.0, None)
    assert (answered.cached_prompt_tokens, answered.resent) == ((8, 1) if version >= 14 else (None, None))
    assert [request.round for request in (answered, failed)] == ([0, 1] if version >= 15 else [None, None])
    windows = [(window.start_s, window.end_s, window.counted is None) for window in run.windows or ()]
    assert windows == ([(0.0, 0.75, False), (0.75, 1.5, True)] if version >= 15 else [])


def test_bundles_of_every_format_are_ingested(settings: Settings) -> None:
    for version in READABLE_FORMAT_VERSIONS:
        bundle_of_format(settings.bundles, version)
    ingest_all(settings)
    rows = ask(settings, "select format_version, requests_completed from runs join run_metrics using (run_id)")
    assert sorted(rows) == [(version, 1) for version in READABLE_FORMAT_VERSIONS]
    assert ask(settings, "select path, error from rejected_bundles") == []


@pytest.mark.parametrize("version", READABLE_FORMAT_VERSIONS)
def test_stricter_demands_of_studies_make_no_bundle_unreadable(tmp_path: Path, version: int) -> None:
    """A bundle stores what was measured, even if no user may submit it any more."""
    folder = bundle_of_format(tmp_path, version)
    stored = json.loads((folder / RUN_FILE).read_text())
    stored["load"]["max_concurrency"] = 100_000  # more than is allowed, and more than there are prompts
    stored["arm"]["speculation"] |= {"method": "a new METHOD", "num_speculative_tokens": 1000, "prompt_lookup_min": 9}
    stored["workload"] |= {"output_tokens": 1, "score": "by a rule of then"}
    stored["slo"]["ttft_ms"] = -1.0
    (folder / RUN_FILE).write_text(json.dumps(stored))
    run = read_run(folder)
    assert (run.load.max_concurrency, run.workload.output_tokens, run.slo.ttft_ms) == (100_000, 1, -1.0)
    assert run.arm.speculation is not None
    assert (run.arm.speculation.method, run.workload.score) == ("a new METHOD", "by a rule of then")


@pytest.mark.parametrize("version", READABLE_FORMAT_VERSIONS)
@pytest.mark.parametrize("place", [(), ("arm",), ("load",), ("circumstances",)])
def test_a_field_too_many_or_too_few_is_refused(tmp_path: Path, version: int, place: tuple[str, ...]) -> None:
    folder = bundle_of_format(tmp_path, version)
    stored = json.loads((folder / RUN_FILE).read_text())
    part = stored[place[0]] if place else stored
    part["a_new_field"] = 1
    (folder / RUN_FILE).write_text(json.dumps(stored))
    with pytest.raises(BundleError, match=r"a_new_field\n  Extra inputs are not permitted"):
        read_run(folder)
    del part["a_new_field"], part[next(name for name in part if name != "format_version")]
    (folder / RUN_FILE).write_text(json.dumps(stored))
    with pytest.raises(BundleError, match="Field required"):
        read_run(folder)


class _Part(Frozen):
    name: str
    note: Annotated[str | None, RecordField("a note", since=NEWEST + 1)] = None


class _Whole(Frozen):
    parts: tuple[_Part, ...]


def test_a_field_of_a_later_format_is_in_no_earlier_one() -> None:
    before, later = stored_form(_Whole, NEWEST), stored_form(_Whole, NEWEST + 1)
    noted = '{"parts": [{"name": "a", "note": "b"}]}'
    assert later.model_validate_json(noted).model_dump() == {"parts": ({"name": "a", "note": "b"},)}
    with pytest.raises(ValidationError, match=r"parts.0.note\n  Extra inputs are not permitted"):
        before.model_validate_json(noted)
    before.model_validate_json('{"parts": [{"name": "a"}]}')
    with pytest.raises(ValidationError, match=r"parts.0.note\n  Field required"):
        later.model_validate_json('{"parts": [{"name": "a"}]}')


@pytest.mark.parametrize("version", READABLE_FORMAT_VERSIONS)
def test_the_fields_of_a_released_format_never_change(version: int) -> None:
    """The sample has what was written then: who adds a field to a record in a run marks it with the next format."""
    stored = json.loads((FORMATS / f"job-of-format-{version}" / f"run-of-format-{version}" / RUN_FILE).read_text())
    form = stored_form(RunRecord, version)
    assert form.model_validate(stored, strict=False).model_dump(mode="json") == stored
    assert set(stored_form(Server, version).model_fields) == {
        *("base_url", "served_model", "api_key"),
        *(("api_key_header", "api_path", "ca_file", "proxy") if version >= 14 else ()),
    }  # not in the sample


def refused(folder: Path, **changes: Any) -> str:
    stored = json.loads((folder / RUN_FILE).read_text())
    (folder / RUN_FILE).write_text(json.dumps(stored | changes))
    with pytest.raises(BundleError) as caught:
        (read_imported if "origin" in stored else read_bundle)(folder)
    return str(caught.value)


def test_a_bundle_of_a_newer_format_says_how_to_go_on(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    assert refused(folder, format_version=NEWEST + 1, a_new_field=1) == (
        f"{folder} has bundle format {NEWEST + 1}; this Drafthouse reads "
        f"{', '.join(map(str, READABLE_FORMAT_VERSIONS))}: use the Drafthouse that wrote it, or a newer one"
    )


def test_an_imported_bundle_of_a_newer_format_says_how_to_go_on(tmp_path: Path) -> None:
    run = samples_read.run("vllm-bench/base-random-c4.json")
    write_imported(tmp_path, [run], {run.source.sha256: lambda: [b"{}"]})
    (folder,) = find_bundles(tmp_path)
    assert refused(folder, format_version=2, a_new_field=1) == (
        f"{folder} has bundle format 2; this Drafthouse reads 1: use the Drafthouse that wrote it, or a newer one"
    )
