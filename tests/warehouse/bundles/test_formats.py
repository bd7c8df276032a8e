"""Bundles of every format are read, whatever is demanded of studies by now; those of a newer one say how to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from host.settings import Settings
from lab.errors import BundleError
from lab.metrics.records import BUNDLE_FORMAT_VERSION, EngineLog, IdleEngine, WorkBeside
from lab.study import Arm, Load, Sessions, Slo, Speculation, Trial, Workload
from tests.warehouse.asking import ask
from tests.warehouse.importers import samples_read
from tests.warehouse.runs import FORMATS, bundle_of_format, records, write_run
from warehouse.bundles.imported_bundle import read_imported, write_imported
from warehouse.bundles.run_bundle import RUN_FILE, find_bundles, read_bundle, read_log, read_run
from warehouse.bundles.stored_run import READABLE_FORMAT_VERSIONS, STORED_RUNS
from warehouse.ingest.service import ingest_all

NEWEST = READABLE_FORMAT_VERSIONS[-1]


def folder_of(version: int) -> Path:
    return FORMATS / f"job-of-format-{version}" / f"run-of-format-{version}"


def test_there_is_a_bundle_of_every_format_and_the_newest_is_written() -> None:
    assert sorted(read_run(folder).format_version for folder in find_bundles(FORMATS)) == [*READABLE_FORMAT_VERSIONS]
    assert BUNDLE_FORMAT_VERSION == NEWEST


@pytest.mark.parametrize("version", READABLE_FORMAT_VERSIONS)
def test_a_bundle_of_each_format_is_read_and_what_it_lacks_is_unknown(version: int) -> None:
    bundle = read_bundle(folder_of(version))
    run, (answered, failed), (sample,) = bundle.run, records(bundle.requests), bundle.telemetry
    speculation = Speculation(method="draft_model", model="reference-draft", num_speculative_tokens=3)
    flags: dict[str, Any] = {"max_model_len": 512, "enforce-eager": True}
    arm = Arm(name="draft", speculation=speculation, flags=flags)
    load = Load(max_concurrency=2, num_prompts=2)
    around = run.circumstances
    assert (run.run_id, run.study_name, run.repeat, run.slo) == (
        *(f"run-of-format-{version}", f"format {version}", 1),
        Slo(ttft_ms=500.0),
    )
    sessions = Sessions(answers="recorded", max_turns=2, think="fixed", think_s=0.5) if version >= 8 else None
    score = "contains" if version >= 9 else None
    assert run.workload == Workload(category="code", output_tokens=16, sessions=sessions, score=score)
    assert (answered.session_id, answered.turn) == (("s", 1) if version >= 8 else (None, None))
    rounds = (answered.rounds_drafted, answered.rounds_accepted, answered.rounds_count)
    assert rounds == (((3, 3), (0, 2), (1, 1)) if version >= 9 else (None, None, None))
    apart = (answered.reasoning_tokens, answered.reasoning_chars, answered.first_answer_s, answered.expected)
    assert apart == ((1, 2, 0.4, "turn") if version >= 9 else (None,) * 4)
    assert run.arm.model_copy(update={"config": {}, "environment": {}, "speculation": speculation}) == arm
    assert around.command == ("vllm", "serve", "target")
    assert run.counters_after is not None
    assert run.counters_after.num_accepted_tokens_per_position == (1.0, 1.0, 0.0)
    assert (answered.chunk_s, answered.spec_drafts, failed.error) == ((0.2, 0.4, 0.5), 2, "connection reset")
    places = (6, 12) if version >= 3 else (None, None)
    assert read_log(folder_of(version), run) == EngineLog(b"ready\nserved\n", *places)
    since_2 = (run.prompts_seed, run.identity and run.identity.cell_id, around.gpus, sample.gpu_power_w)
    assert since_2 == ((11, "c", ("NVIDIA H200 (GPU-1)",), 400.0) if version >= 2 else (None, None, (), None))
    since_3 = (run.log_begin_bytes, run.log_end_bytes, sample.gpu_other_processes, answered.sent_prompt_tokens)
    assert since_3 == ((6, 12, 0, 9) if version >= 3 else (None,) * 4)
    assert answered.output_token_ids == ((5, 6, 7, 8) if version >= 4 else None)
    since_5 = (run.order, run.until_decided, run.idle_engines)
    idle = (IdleEngine(arm="no draft", cpu_percent=0.5),)
    assert since_5 == (("side_by_side", True, idle) if version >= 5 else (None, False, ()))
    search = Load(max_concurrency=2, num_prompts=2, find="rate", find_from=2.0)
    trial = Trial(search=search, number=0, arrivals_seed=1001)
    assert (run.trial, run.ended_early) == ((trial, "the SLO is missed") if version >= 6 else (None, None))
    beside = (WorkBeside(kind="question", what="results", seconds=0.25),)
    assert run.beside == (beside if version >= 7 else None)
    assert around.slot == (3 if version >= 10 else None)
    assert (answered.tests_passed, failed.tests_passed) == ((1.0, None) if version >= 11 else (None, None))
    thought = (answered.reasoning_rounds, answered.reasoning_accepted_tokens)
    assert thought == ((1, 0) if version >= 12 else (None, None))
    problems = (run.counters_problem, run.reset_problem)
    assert problems == (("the page was silent", "HTTP 500") if version >= 13 else (None, None))
    labels = {1: "c2-n2", 6: "capacity-rate #1 at 2"}
    assert run.load.name == labels.get(min(version, 6), "two at once")
    assert run.load.closed_loop is (version == 1)
    if version == 1:
        assert (run.load, run.arm) == (load, arm)
    if version == 4:
        assert run.arm.speculation is not None
        assert run.arm.speculation.scheduled_tokens(3) == 3


def test_bundles_of_every_format_are_ingested(settings: Settings) -> None:
    for version in READABLE_FORMAT_VERSIONS:
        bundle_of_format(settings.bundles, version)
    ingest_all(settings)
    rows = ask(settings, "select format_version, requests_completed from runs join run_metrics using (run_id)")
    assert sorted(rows) == [(version, 1) for version in READABLE_FORMAT_VERSIONS]
    assert ask(settings, "select path, error from rejected_bundles") == []


@pytest.mark.parametrize("version", READABLE_FORMAT_VERSIONS)
def test_what_is_demanded_of_studies_may_become_stricter_without_making_a_bundle_unreadable(
    tmp_path: Path, version: int
) -> None:
    """A bundle stores what was measured, even if no user may submit it any more."""
    folder = bundle_of_format(tmp_path, version)
    stored = json.loads((folder / RUN_FILE).read_text())
    stored["load"]["max_concurrency"] = 100_000  # more than is allowed, and more than there are prompts
    stored["arm"]["speculation"] = {"method": "a new METHOD", "num_speculative_tokens": 1000, "prompt_lookup_min": 9}
    stored["workload"]["output_tokens"] = 1
    stored["slo"]["ttft_ms"] = -1.0
    (folder / RUN_FILE).write_text(json.dumps(stored))
    run = read_run(folder)
    assert (run.load.max_concurrency, run.workload.output_tokens, run.slo.ttft_ms) == (100_000, 1, -1.0)
    assert run.arm.speculation is not None
    assert run.arm.speculation.method == "a new METHOD"


@pytest.mark.parametrize("version", READABLE_FORMAT_VERSIONS)
@pytest.mark.parametrize("place", [(), ("arm",), ("load",), ("circumstances",)])
def test_a_field_that_its_format_does_not_have_is_refused(tmp_path: Path, version: int, place: tuple[str]) -> None:
    folder = bundle_of_format(tmp_path, version)
    stored = json.loads((folder / RUN_FILE).read_text())
    part = stored[place[0]] if place else stored
    part["a_new_field"] = 1
    (folder / RUN_FILE).write_text(json.dumps(stored))
    with pytest.raises(BundleError, match=r"a_new_field\n  Extra inputs are not permitted"):
        read_run(folder)


def fields_of_run(version: int) -> tuple[set[str], set[type[BaseModel]]]:
    form = STORED_RUNS[version]
    return set(form.model_fields), forms_in(form) - {form}


def test_fields_of_later_formats_are_refused_in_earlier_ones(tmp_path: Path) -> None:
    earlier = [version for version in READABLE_FORMAT_VERSIONS if fields_of_run(version) != fields_of_run(NEWEST)]
    assert earlier == [*range(1, 13)]
    for version in earlier:
        folder = bundle_of_format(tmp_path, version)
        newest = json.loads((folder_of(NEWEST) / RUN_FILE).read_text())
        (folder / RUN_FILE).write_text(json.dumps(newest | {"format_version": version}))
        with pytest.raises(BundleError, match="Extra inputs are not permitted"):
            read_run(folder)


def test_a_bundle_of_a_newer_format_says_how_to_go_on_before_anything_else_is_looked_at(tmp_path: Path) -> None:
    folder = write_run(tmp_path)
    (folder / RUN_FILE).write_text(json.dumps({"format_version": NEWEST + 1, "a_new_field": 1}))
    *earlier, newest = map(str, READABLE_FORMAT_VERSIONS)
    with pytest.raises(BundleError) as caught:
        read_bundle(folder)
    assert str(caught.value) == (
        f"{folder} has bundle format {NEWEST + 1}; this Drafthouse reads {', '.join(earlier)} and {newest}: "
        "use the Drafthouse that wrote it, or a newer one"
    )


def test_an_imported_bundle_of_a_newer_format_says_how_to_go_on(tmp_path: Path) -> None:
    run = samples_read.run("vllm-bench/base-random-c4.json")
    write_imported(tmp_path, [run], {run.source.sha256: lambda: [b"{}"]})
    (folder,) = find_bundles(tmp_path)
    stored = json.loads((folder / RUN_FILE).read_text())
    (folder / RUN_FILE).write_text(json.dumps(stored | {"format_version": 2, "a_new_field": 1}))
    with pytest.raises(BundleError) as caught:
        read_imported(folder)
    assert str(caught.value) == (
        f"{folder} has bundle format 2; this Drafthouse reads 1: use the Drafthouse that wrote it, or a newer one"
    )


def forms_in(annotation: Any) -> set[type[BaseModel]]:
    """The stored forms that a field of this type may hold, and those in them."""
    if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return set[type[BaseModel]]().union(*map(forms_in, get_args(annotation)))
    return {annotation}.union(*(forms_in(field.annotation) for field in annotation.model_fields.values()))


def test_the_newest_form_has_every_field_that_is_written_and_no_other() -> None:
    """Who adds a field to a record in a bundle, or to a part of a study in it, adds a format."""
    forms = forms_in(STORED_RUNS[NEWEST])
    assert len(forms) == 16
    for form in forms:
        record: type[BaseModel] = form.record  # type: ignore[attr-defined]  # of _Stored
        assert set(form.model_fields) == set(record.model_fields), record
