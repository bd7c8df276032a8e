"""Files of other tools go the way of every run: bundle, ingester, checks, views, rebuild."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from host.settings import Settings
from interchange.files import read_paths
from interchange.reading import read_runs
from interchange.store import Import, import_paths, move_aside, move_back
from interchange.vllm_json import vllm_results
from lab.errors import BundleError, ForeignFileError, UserError
from lab.validity import CHECKS
from tests.actors import ADMIN
from tests.interchange.sample_files import APPENDED, DETAILED, SAMPLES
from tests.interchange.test_aggregates import BENCHY, LLAMA, LOADGEN, REPORT, RESPONSES, SETTING, SUMMARY, TRTLLM
from tests.interchange.test_model_answers import line
from tests.warehouse.asking import ask, contents
from tests.warehouse.queries.comparing.stretched_arms import write_arm
from tests.warehouse.runs import ingested, write_run
from warehouse.bundles.imported_bundle import SOURCE_FOLDER, is_imported, read_imported
from warehouse.ingest.rebuild import rebuild
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.comparisons import StudyComparison, compare_study
from warehouse.queries.connect import open_warehouse
from warehouse.queries.slices import DIMENSIONS


def imported(settings: Settings, *paths: Path, **labels: str) -> Import:
    stored = import_paths(settings, paths, labels=labels, actor=ADMIN)
    ingest_all(settings)
    return stored


@pytest.fixture(scope="module")
def detailed(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, Import]:
    """A home with one imported run, and what its import says: both are only read."""
    return _home_with(migrated, tmp_path_factory, DETAILED)


@pytest.fixture(scope="module")
def every_sample(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Settings, Import]:
    """The same with all of our samples."""
    return _home_with(migrated, tmp_path_factory, SAMPLES)


def _home_with(migrated: Path, folders: pytest.TempPathFactory, path: Path) -> tuple[Settings, Import]:
    settings = Settings(home=folders.mktemp("imported") / "home")
    shutil.copytree(migrated, settings.home)
    return settings, imported(settings, path)


def bundle_of(settings: Settings, run_id: str) -> Path:
    (folder,) = settings.bundles.glob(f"*/{run_id}")
    return folder


def edited(path: Path, folder: Path, **changes: Any) -> Path:
    """A copy of a result with other values in it."""
    target = folder / path.name
    target.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return target


def summary_of(path: Path, folder: Path, **changes: Any) -> Path:
    """The same without its requests."""
    target = edited(path, folder, **changes)
    content = json.loads(target.read_text())
    arrays = ("ttfts", "itls", "latencies", "start_times", "input_lens", "output_lens", "errors", "generated_texts")
    target.write_text(json.dumps({key: value for key, value in content.items() if key not in arrays}))
    return target


def test_an_imported_run_stands_in_results_with_its_origin_tool_and_file(settings: Settings) -> None:
    imported(settings, DETAILED, hardware="H200", arm="draft")
    query = "select origin, tool, source_sha256, hardware, arm, concurrency, is_valid, status from results"
    digest = hashlib.sha256(DETAILED.read_bytes()).hexdigest()
    assert ask(settings, query + " where origin <> 'published'") == [
        ("imported", "vllm-bench-serve", digest, "H200", "draft", 4, True, "completed")
    ]


def test_what_the_file_does_not_tell_is_null_in_the_tables(detailed: tuple[Settings, Import]) -> None:
    settings, _ = detailed
    unknown = "is_baseline, method, dataset, temperature, seed, started_at, hardware, engine, command_json, gpus"
    assert ask(settings, f"select {unknown} from runs") == [(None,) * 10]
    per_request = "prompt_id, prompt, intended_send_s, ttft_from_intended_ms"
    assert set(ask(settings, f"select {per_request} from request_records")) == {(None,) * 4}


def test_every_sample_is_ingested_and_none_is_rejected(every_sample: tuple[Settings, Import]) -> None:
    settings, stored = every_sample
    assert len(stored.new_run_ids) == len({run.run_id for run in stored.runs}) == 33
    assert ask(settings, "select count(*) from runs where origin = 'imported'") == [(33,)]
    assert ask(settings, "select * from rejected_bundles") == []
    assert ask(settings, "select count(distinct job_id) from study_validity") == [(len(stored.jobs),)]


def test_an_import_says_what_it_does_and_how_much_is_done(settings: Settings) -> None:
    steps: list[tuple[str, float]] = []
    import_paths(
        settings, [DETAILED, APPENDED], progress=lambda doing, share: steps.append((doing, share)), actor=ADMIN
    )
    doing, shares = zip(*steps, strict=True)
    assert doing == (f"reading {DETAILED}", f"reading {APPENDED}", *["computing figures"] * 2, "storing")
    assert list(shares) == sorted(set(shares))
    assert (shares[0], shares[-1] < 1) == (0.0, True)


def test_the_figures_in_the_warehouse_are_those_of_the_file(detailed: tuple[Settings, Import]) -> None:
    settings, stored = detailed
    (run,) = stored.runs
    [(speed, ttft, length)] = ask(
        settings, "select output_tok_per_s, ttft_mean_ms, acceptance_length from results where origin = 'imported'"
    )
    printed = json.loads(DETAILED.read_text())
    assert (speed, ttft, length) == pytest.approx(
        (printed["output_throughput"], printed["mean_ttft_ms"], printed["spec_decode_acceptance_length"]), rel=0.005
    )
    figures = dict(ask(settings, "select field, value from imported_figures where value is not null"))
    assert figures == dict(run.printed)


def test_figures_that_became_no_column_are_kept_with_the_reason(detailed: tuple[Settings, Import]) -> None:
    settings, _ = detailed
    query = "select left_out from imported_figures where field = 'max_output_tokens_per_s'"
    assert "counted in chunks, not tokens" in ask(settings, query)[0][0]


def test_importing_the_same_file_twice_changes_nothing(settings: Settings) -> None:
    imported(settings, DETAILED)
    before = contents(settings)
    files = sorted(settings.bundles.rglob("*"))
    again = imported(settings, DETAILED, hardware="other", study="other")
    assert again.new_run_ids == ()
    assert list(again.jobs) == [path.name for path in settings.bundles.iterdir()]
    assert contents(settings) == before
    assert sorted(settings.bundles.rglob("*")) == files


def test_an_import_looks_into_no_folder_of_a_measured_job(settings: Settings) -> None:
    write_run(settings.bundles)
    listed: list[str] = []
    is_watched = True

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if is_watched and event in ("os.scandir", "os.listdir"):
            listed.append(str(arguments[0]))

    sys.addaudithook(watch)  # stays, so that it is told to stop
    try:
        stored = import_paths(settings, [DETAILED], actor=ADMIN)
        again = import_paths(settings, [DETAILED], actor=ADMIN)
    finally:
        is_watched = False
    assert (len(stored.new_run_ids), again.new_run_ids, again.jobs) == (1, (), stored.jobs)
    assert [path for path in listed if path.startswith(str(settings.bundles / "job-1"))] == []
    assert str(settings.bundles / stored.jobs[0]) in listed


def test_a_run_in_two_files_is_imported_once(settings: Settings, tmp_path: Path) -> None:
    first, second = APPENDED.read_text().splitlines()
    (tmp_path / "first.json").write_text(first)
    imported(settings, tmp_path / "first.json")
    assert len(imported(settings, APPENDED).new_run_ids) == 1
    assert second
    assert ask(settings, "select count(*) from runs") == [(2,)]


def test_a_run_whose_metadata_comes_second_is_shown_as_it_is_stored(settings: Settings) -> None:
    folder = SAMPLES / "genai-bench/spec-d64x48-c4"
    (alone,) = folder.glob("D64*")
    first = imported(settings, alone)
    again = imported(settings, folder)
    assert (again.new_run_ids, again.jobs) == ((), first.jobs)
    assert [run.columns["target"] for run in again.runs] == [None]
    (sentence,) = again.refused
    assert "the run is stored already, without target, ignore_eos, temperature, engine: to replace it, " in sentence
    move_aside(settings, first.jobs[0])
    assert imported(settings, folder).runs[0].columns["target"] is not None


def test_the_original_file_is_kept_in_the_bundle_byte_by_byte(detailed: tuple[Settings, Import]) -> None:
    settings, stored = detailed
    (run,) = stored.runs
    copy = bundle_of(settings, run.run_id) / SOURCE_FOLDER / run.source.sha256
    assert copy.read_bytes() == DETAILED.read_bytes()


def test_a_file_of_several_runs_lies_on_the_disk_once(settings: Settings) -> None:
    stored = imported(settings, APPENDED)
    copies = [bundle_of(settings, run.run_id) / SOURCE_FOLDER / run.source.sha256 for run in stored.runs]
    assert len({path.stat().st_ino for path in copies}) == 1


def test_a_rebuild_gives_the_same_warehouse(settings: Settings) -> None:
    write_run(settings.bundles)
    imported(settings, SAMPLES / "guidellm", SAMPLES / "inference-perf")
    before = contents(settings)
    rebuild(settings)
    assert contents(settings) == before


def test_a_bundle_reads_back_equal(every_sample: tuple[Settings, Import]) -> None:
    settings, stored = every_sample
    read = read_runs(read_paths([SAMPLES])).runs
    assert stored.runs == tuple(replace(run, requests=None) for run in read)
    for run in read:
        folder = bundle_of(settings, run.run_id)
        assert is_imported(folder)
        assert read_imported(folder).run == run


@pytest.mark.parametrize("missing", ["source", "run.json"])
def test_a_bundle_without_its_file_is_rejected_with_the_reason(settings: Settings, missing: str) -> None:
    (run,) = import_paths(settings, [DETAILED], actor=ADMIN).runs
    folder = bundle_of(settings, run.run_id)
    (folder / SOURCE_FOLDER / run.source.sha256 if missing == "source" else folder / missing).unlink()
    with pytest.raises(BundleError, match=r"is missing|cannot be read"):
        read_imported(folder)
    ingest_all(settings)
    assert ask(settings, "select count(*) from runs") == [(0,)]


def test_checks_that_need_what_the_file_does_not_tell_say_so(settings: Settings) -> None:
    imported(settings, DETAILED)
    [(unjudged,)] = ask(settings, "select unjudged_checks from run_validity")
    for name in ("client_lag", "gpu_throttled", "server_token_count", "compilation_in_window", "short_warm_up"):
        assert name in unjudged
    assert not {"acceptance_adds_up", "few_rounds", "degenerate_output", "requests_failed"} & set(unjudged)
    assert set(unjudged) < {check.name for check in CHECKS}


def test_a_half_failed_run_is_invalid_also_without_requests(settings: Settings, tmp_path: Path) -> None:
    plain = SAMPLES / "vllm-bench" / "base-random-c4.json"
    imported(settings, summary_of(plain, tmp_path, failed=3))
    [(valid, why)] = ask(settings, "select is_valid, why_invalid[1] from results where origin = 'imported'")
    assert not valid
    assert "failed" in why
    assert "the file does not say why" in why


def test_figures_that_contradict_each_other_are_a_warning(settings: Settings, tmp_path: Path) -> None:
    imported(settings, edited(DETAILED, tmp_path, mean_ttft_ms=1.0))
    [(severity, sentence)] = ask(
        settings, "select severity, sentence from findings where check_name = 'file_contradicts_itself'"
    )
    assert severity == "warning"
    assert "the file says 1, but its own requests give" in sentence


def test_copies_of_one_result_are_found_in_their_job(settings: Settings, tmp_path: Path) -> None:
    plain = SAMPLES / "vllm-bench" / "base-random-c4.json"
    imported(settings, plain, edited(plain, tmp_path, date="20260101-000000"))
    assert ask(settings, "select check_name, len(run_ids) from study_findings") == [("identical_figures", 2)]


def test_a_run_in_which_nothing_completed_is_a_failed_one(settings: Settings, tmp_path: Path) -> None:
    plain = SAMPLES / "vllm-bench" / "base-random-c4.json"
    gone = {"completed": 0, "failed": 16, "output_throughput": 0.0, "request_throughput": 0.0}
    imported(settings, summary_of(plain, tmp_path, **gone, total_output_tokens=0, total_token_throughput=0.0))
    assert ask(settings, "select status, output_tok_per_s from results where origin = 'imported'") == [("failed", None)]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"request_rate": "inf", "max_concurrency": 4}, (True, "closed loop", "inf")),
        ({"request_rate": 2.5, "max_concurrency": 4}, (False, "2.5", 2.5)),
        ({"request_rate": "inf", "max_concurrency": None}, (None, "unknown", None)),
        ({"request_rate": "inf", "max_concurrency": 4, "ramp_up_strategy": "linear"}, (None, "unknown", None)),
    ],
)
def test_a_loop_is_closed_open_or_unknown(
    settings: Settings, tmp_path: Path, changes: dict[str, Any], expected: tuple[object, ...]
) -> None:
    (job,) = imported(settings, edited(DETAILED, tmp_path, **changes)).jobs
    [(closed_loop, rate)] = ask(
        settings, f"select closed_loop, {DIMENSIONS['request_rate']} from results where origin = 'imported'"
    )
    with open_warehouse(settings.warehouse_file) as connection:
        (exported,) = vllm_results(connection, [job])
    assert (closed_loop, rate, exported.get("request_rate")) == expected


def test_nothing_is_imported_when_one_file_is_damaged(settings: Settings, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.json"
    damaged.write_text(DETAILED.read_text()[:-40])
    with pytest.raises(ForeignFileError, match="ends too early"):
        import_paths(settings, [DETAILED, damaged], actor=ADMIN)
    assert list(settings.bundles.iterdir()) == []


def test_nothing_is_imported_when_the_disk_refuses_one_bundle(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = iter(range(2))

    def full(*_: object) -> None:
        next(written, None)
        if next(written, None) is None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("warehouse.bundles.run_bundle.fsync", full)
    with pytest.raises(ForeignFileError, match="nothing was imported"):
        import_paths(settings, [APPENDED], actor=ADMIN)
    assert [path for path in settings.bundles.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("key", ["max_concurrency", "num_prompts"])
def test_a_figure_that_no_column_can_hold_is_refused_at_once(settings: Settings, tmp_path: Path, key: str) -> None:
    path = summary_of(SAMPLES / "vllm-bench" / "base-random-c4.json", tmp_path, **{key: 10**14})
    with pytest.raises(ForeignFileError, match="it cannot be stored"):
        import_paths(settings, [path], actor=ADMIN)
    assert list(settings.bundles.iterdir()) == []


def test_a_chunks_time_that_no_column_can_hold_is_refused(settings: Settings, tmp_path: Path) -> None:
    result = json.loads((SAMPLES / "vllm-bench" / "base-random-c4.json").read_text())
    result["itls"][0][0] = 2e12
    path = tmp_path / "late.json"
    path.write_text(json.dumps(result))
    with pytest.raises(ForeignFileError, match=r"it cannot be stored: a chunk arrives 2e\+12 s after"):
        import_paths(settings, [path], actor=ADMIN)
    assert list(settings.bundles.iterdir()) == []


@pytest.mark.parametrize("key", ["completed", "failed", "total_output_tokens", "burstiness", "duration"])
def test_what_is_imported_is_never_rejected_later(settings: Settings, tmp_path: Path, key: str) -> None:
    imported(settings, summary_of(SAMPLES / "vllm-bench" / "base-random-c4.json", tmp_path, **{key: 10**14}))
    assert ask(settings, "select count(*) from runs") == [(1,)]
    assert ask(settings, "select * from rejected_bundles") == []


def test_names_with_markup_and_paths_are_text(settings: Settings, tmp_path: Path) -> None:
    hostile = "../../<script>alert(1)</script>"
    imported(settings, edited(DETAILED, tmp_path, model_id=hostile), study=hostile, arm=hostile)
    assert ask(settings, "select target, study_name, arm from runs") == [(hostile,) * 3]
    assert {path.parent for path in settings.bundles.glob("*/*")} == set(settings.bundles.iterdir())


def test_imported_arms_can_be_compared_when_asked(settings: Settings) -> None:
    folder = SAMPLES / "vllm-bench"
    imported(settings, folder / "base-random-c4.json", study="mine", arm="base")
    imported(settings, folder / "spec-random-c4.json", study="mine", arm="spec")
    with open_warehouse(settings.warehouse_file) as connection:
        (pair,) = compare_study(connection, "mine", baseline="base").pairs
    assert pair.comparison.ratio is not None
    assert pair.comparison.ratio.low is None, "the requests have no prompts to pair them by"


def shown(compared: StudyComparison) -> list[object]:
    return [(pair.cell, pair.comparison.ratio, pair.comparison.basis, pair.verdict) for pair in compared.pairs]


def test_measured_comparisons_do_not_change_by_imported_runs(settings: Settings) -> None:
    for repeat in range(2):
        write_arm(settings, "plain", repeat, 1.0 + repeat / 100)
        write_arm(settings, "drafted", repeat, 0.5)
    with ingested(settings) as connection:
        (job_id,) = connection.execute("select distinct job_id from runs").fetchone() or ("",)
        before = shown(compare_study(connection, job_id))
        (hardware,) = connection.execute("select distinct hardware from runs").fetchone() or ("",)
    imported(settings, SAMPLES / "vllm-bench", SAMPLES / "vllm-bench-sweep", hardware=hardware, study="small")
    with open_warehouse(settings.warehouse_file) as connection:
        assert shown(compare_study(connection, job_id)) == before


def test_removed_results_leave_the_warehouse_and_come_back_as_they_were(settings: Settings) -> None:
    write_run(settings.bundles)
    ingest_all(settings)
    without = contents(settings)
    (job_id,) = imported(settings, DETAILED, hardware="H200").jobs
    with_it = contents(settings)
    for _ in range(2):
        move_aside(settings, job_id)
        ingest_all(settings)
        assert contents(settings) == without
        move_back(settings, job_id, datetime.now(UTC))
        ingest_all(settings)
        assert contents(settings) == with_it


def test_only_imported_results_are_moved(settings: Settings) -> None:
    write_run(settings.bundles)
    imported(settings, DETAILED)
    for other in ("job-1", "nothing"):
        move_aside(settings, other)
        move_back(settings, other, datetime.now(UTC))
    with pytest.raises(UserError, match="not the id"):
        move_aside(settings, "../x")
    ingest_all(settings)
    assert ask(settings, "select count(*) from runs where origin <> 'published'") == [(2,)]


def test_runs_of_aggregates_are_judged_and_shown_without_what_they_lack(settings: Settings, tmp_path: Path) -> None:
    """Figures of nine tools, most of them without counts, durations and requests."""
    folder = tmp_path / "results"
    folder.mkdir()
    answer = line({"decoding_steps": [20, 15]}, "math")
    values = {"l": LLAMA, "s": SUMMARY, "r": RESPONSES, "x": [SETTING], "t": TRTLLM, "b": BENCHY, "a": answer}
    values["v"] = {"avg_latency": 1.25, "latencies": [1.25], "percentiles": {"50": 1.25}}
    for name, value in values.items():
        (folder / name).write_text(json.dumps(value))
    (folder / "summary.txt").write_text(LOADGEN)
    (folder / "report.yaml").write_text(REPORT)
    stored = imported(settings, folder)
    assert (len(stored.runs), stored.skipped, stored.refused) == (9, (), ())
    rows = ask(
        settings,
        "SELECT tool, output_tok_per_s, ttft_mean_ms, acceptance_length, origin, status FROM results "
        "WHERE tool IS NOT NULL ORDER BY tool",
    )
    assert [(row[0], *(None if value is None else round(value, 2) for value in row[1:4])) for row in rows] == [
        ("inferencex", 1640.0, 210.0, None),
        ("llama-bench", None, None, None),
        ("llama-benchy", None, 110.0, None),
        ("llm-d-report", 479.5, 539.5, None),
        ("llmperf", 290.5, 115.0, None),
        ("mlperf-loadgen", 2200.25, 1038.0, None),
        ("model-answers", 40.0, None, 2.51),
        ("trtllm-bench", 640.0, 21.0, None),
        ("vllm-bench-latency", None, None, None),
    ]
    assert {row[4:] for row in rows} == {("imported", "completed")}
