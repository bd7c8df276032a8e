"""Exports are restored equal, here and in another Drafthouse, and other tools can read them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from host.settings import Settings
from interchange import restore
from interchange.export import export
from interchange.files import read_paths
from interchange.reading import read_runs
from interchange.restore import MANIFEST, restore_as_measured, restore_bundles
from interchange.store import import_paths
from lab.errors import AccessError, BundleError, ForeignFileError, QueryError, UserError
from lab.roles import Actor
from tests.actors import ADMIN, OTHER_SUBMITTER
from tests.interchange.sample_files import SAMPLES
from tests.warehouse.asking import ask
from tests.warehouse.exports import forged_export, many_times, understated
from tests.warehouse.runs import counters, failed_request, ingested, request, write_run
from warehouse.bundles.record_file import refuse_bomb
from warehouse.ingest.bundle_rows import MOST_CHARACTERS
from warehouse.ingest.rebuild import rebuild
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.paired_runs import jobs_of
from warehouse.queries.connect import open_warehouse

ORIGINALS = [SAMPLES / "vllm-bench" / f"spec-{name}-c4.json" for name in ("code-append", "random", "somefail")]
COMMAND = replace(ADMIN, via="command")
EVERYTHING = "select * from results where origin <> 'published' order by run_id"


@pytest.fixture(scope="module")
def made(shared: Settings) -> Settings:
    """A job of two measured runs, only to be copied."""
    after = counters(num_drafts=4, num_draft_tokens=12, num_accepted_tokens=6)
    write_run(shared.bundles, counters_before=counters(), counters_after=after)
    write_run(shared.bundles, (request(), failed_request(index=1)), run_id="run-2", repeat=1)
    ingest_all(shared)
    return shared


@pytest.fixture
def filled(made: Settings, tmp_path: Path) -> Settings:
    """A job of two measured runs."""
    shutil.copytree(made.home, tmp_path / "home")
    return Settings(home=tmp_path / "home")


@pytest.fixture(scope="module")
def made_with_imports(made: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """And one of imported ones, only to be copied."""
    both = Settings(home=shutil.copytree(made.home, tmp_path_factory.mktemp("with imports") / "home"))
    import_paths(both, ORIGINALS, labels={"study": "theirs"}, actor=ADMIN)
    ingest_all(both)
    return both


@pytest.fixture
def with_imports(made_with_imports: Settings, tmp_path: Path) -> Settings:
    """A job of two measured runs and one of imported ones."""
    return Settings(home=shutil.copytree(made_with_imports.home, tmp_path / "home"))


@pytest.fixture
def other(tmp_path: Path, migrated: Path) -> Settings:
    """Another Drafthouse."""
    shutil.copytree(migrated, tmp_path / "other")
    return Settings(home=tmp_path / "other")


def exported(settings: Settings, study: str, to: Path) -> Path:
    with open_warehouse(settings.warehouse_file) as connection:
        export(settings.bundles, connection, study, to)
    return to


@pytest.mark.parametrize("study", ["job-1", "theirs"])
def test_an_administrators_command_restores_the_same_runs_with_the_same_ids(
    with_imports: Settings, other: Settings, tmp_path: Path, study: str
) -> None:
    folder = exported(with_imports, study, tmp_path / "export")
    import_paths(other, [folder], actor=COMMAND, as_measured=True)
    ingest_all(other)
    theirs = ask(other, EVERYTHING)
    assert len(theirs) >= 2
    assert theirs == [row for row in ask(with_imports, EVERYTHING) if row in theirs]
    assert ask(other, "select * from rejected_bundles") == []


@pytest.mark.parametrize("study", ["job-1", "theirs"])
def test_what_others_export_counts_as_imported_with_ids_of_our_own(
    with_imports: Settings, other: Settings, tmp_path: Path, study: str
) -> None:
    folder = exported(with_imports, study, tmp_path / "export")
    import_paths(other, [folder], actor=OTHER_SUBMITTER)
    ingest_all(other)
    (job,) = ask(with_imports, f"select distinct job_id from results where '{study}' in (job_id, study_name)")[0]
    origin = "origin, left(job_id, 9), labels_json->>'imported_by', labels_json->>'source_job'"
    for is_rebuilt in (False, True):
        if is_rebuilt:
            rebuild(other)
        assert set(ask(other, f"select {origin} from results where origin <> 'published'")) == {
            ("imported", "imported-", "sue", job)
        }
        assert ask(other, f"select * from runs where job_id = '{job}'") == []
        assert ask(other, "select * from rejected_bundles") == []
    sources = ask(other, "select labels_json->>'source_run' from runs order by 1")
    assert sources == ask(with_imports, f"select run_id from runs where job_id = '{job}' order by 1")
    figures = "output_tok_per_s, ttft_p50_ms, is_valid"
    assert ask(other, f"select {figures} from results where origin = 'imported' order by all") == ask(
        with_imports, f"select {figures} from results where job_id = '{job}' order by all"
    )
    assert import_paths(other, [folder], actor=OTHER_SUBMITTER).new_run_ids == ()
    assert import_paths(with_imports, [folder], actor=OTHER_SUBMITTER).new_run_ids == ()


def test_a_name_or_digest_means_measured_runs_not_imported_ones(filled: Settings, tmp_path: Path) -> None:
    folder = forged_export(tmp_path / "forged", job_id="job-9", run_ids=["run-9"])
    import_paths(filled, [folder], actor=OTHER_SUBMITTER)
    with ingested(filled) as connection:
        assert jobs_of(connection, "small") == ["job-1"]
        assert jobs_of(connection, "0" * 64) == ["job-1"]


@pytest.mark.parametrize("actor", [replace(ADMIN, via="api"), ADMIN, replace(OTHER_SUBMITTER, via="command")])
def test_only_an_administrator_at_the_command_line_imports_measured_runs(
    filled: Settings, other: Settings, tmp_path: Path, actor: Actor
) -> None:
    folder = exported(filled, "job-1", tmp_path / "export")
    with pytest.raises(AccessError, match="only an administrator of the lab's own host"):
        import_paths(other, [folder], actor=actor, as_measured=True)
    assert list(other.bundles.iterdir()) == []


def test_an_export_merges_into_a_home_that_has_some_of_its_runs(
    filled: Settings, other: Settings, tmp_path: Path
) -> None:
    write_run(other.bundles, run_id="run-2", repeat=1)
    folder = exported(filled, "job-1", tmp_path / "export")
    imported = import_paths(other, [folder], actor=COMMAND, as_measured=True)
    assert (imported.taken_in, imported.new_run_ids) == (("run-1", "run-2"), ("run-1",))
    assert import_paths(other, [folder], actor=COMMAND, as_measured=True).new_run_ids == ()
    assert import_paths(filled, [folder], actor=COMMAND, as_measured=True).new_run_ids == ()


def test_csv_and_parquet_have_one_row_per_run(filled: Settings, tmp_path: Path) -> None:
    text = pd.read_csv(exported(filled, "job-1", tmp_path / "results.csv"))
    table = pq.read_table(exported(filled, "job-1", tmp_path / "results.parquet"))
    assert text["run_id"].tolist() == table.column("run_id").to_pylist()
    assert list(text.columns) == table.column_names
    assert text["output_tok_per_s"].tolist() == pytest.approx(table.column("output_tok_per_s").to_pylist())
    assert json.loads(text["why_invalid"][0]) == table.column("why_invalid").to_pylist()[0]
    assert text["request_rate_rps"].isna().all()


def test_the_folder_has_bundles_studies_and_a_manifest_of_all(filled: Settings, tmp_path: Path) -> None:
    (tmp_path / "new.csv").mkdir()  # an empty folder is one whatever its name
    folder = exported(filled, "job-1", tmp_path / "new.csv")
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    digests = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    assert manifest == {
        "format": "drafthouse export",
        "version": 1,
        "jobs": ["job-1"],
        "files": {name: digest for name, digest in sorted(digests.items()) if name != MANIFEST},
    }
    assert {name.split("/")[0] for name in files} == {"bundles", "results.parquet", "comparisons.parquet", MANIFEST}
    for run in ("run-1", "run-2"):
        for path in (filled.bundles / "job-1" / run).iterdir():
            assert (folder / "bundles" / "job-1" / run / path.name).read_bytes() == path.read_bytes()
    assert (folder / MANIFEST).read_text().startswith('{\n "format"')
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "new.csv"]


def test_a_file_is_replaced_its_folder_made_and_a_failure_said(filled: Settings, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down" / "results.csv"
    for _ in range(2):
        with open_warehouse(filled.warehouse_file) as connection:
            assert export(filled.bundles, connection, "job-1", path) == 2
    assert [file.name for file in path.parent.iterdir()] == ["results.csv"]
    with pytest.raises(UserError) as caught:
        exported(filled, "job-1", path / "below.csv")
    assert str(caught.value) == f"{path / 'below.csv'} cannot be written: File exists"


def test_an_unknown_ending_is_refused(filled: Settings, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"aa\.xyz ends in \.xyz, and a file ends in \.csv, \.parquet, \.json, \.jsonl; a folder's"
    ):
        exported(filled, "job-1", tmp_path / "aa.xyz")
    assert list(tmp_path.glob("aa*")) == []


def test_the_number_of_runs_is_returned_by_every_format(filled: Settings, tmp_path: Path) -> None:
    with open_warehouse(filled.warehouse_file) as connection:
        for name in ("folder", "a.csv", "a.parquet", "a.json", "a.jsonl"):
            assert export(filled.bundles, connection, "job-1", tmp_path / name) == 2


def test_vllms_json_read_again_gives_the_same_figures(filled: Settings, tmp_path: Path) -> None:
    path = exported(filled, "job-1", tmp_path / "results.json")
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert (first["request_rate"], first["spec_decode_acceptance_rate"]) == ("inf", 50.0)
    assert second["ttfts"] == [pytest.approx(0.1), 0.0]
    assert second["errors"] == ["", "connection reset"]
    names = "requests_completed, requests_failed, prompt_tokens, completion_tokens, output_tok_per_s, ttft_mean_ms"
    names += ", tpot_p90_ms, icl_p99_ms, num_drafts, acceptance_length"
    stored = ask(filled, f"select {names} from results where job_id = 'job-1' order by run_id")
    for run, row in zip(read_runs(read_paths([path])).runs, stored, strict=True):
        assert [run.metrics[name] for name in names.split(", ")] == [
            None if value is None else pytest.approx(value) for value in row
        ]


def test_vllms_own_files_are_exported_equal_to_what_was_imported(with_imports: Settings, tmp_path: Path) -> None:
    path = exported(with_imports, "theirs", tmp_path / "results.jsonl")
    originals = [json.loads(line) for file in ORIGINALS for line in file.read_text().splitlines()]
    written = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(written) == len(originals)
    for name in ("duration", "output_throughput", "mean_ttft_ms", "p99_itl_ms", "mean_tpot_ms", "total_output_tokens"):
        assert sorted(result[name] for result in written) == pytest.approx(
            sorted(result[name] for result in originals), rel=0.005
        )


def test_an_existing_target_is_refused_and_left_unchanged(filled: Settings, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "note").write_text("mine")
    with pytest.raises(UserError) as caught:
        exported(filled, "job-1", tmp_path / "mine")
    assert str(caught.value) == f"{tmp_path / 'mine'} is a folder that is not empty: choose a new or an empty one"
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["note"]


def test_an_unknown_study_leaves_nothing_behind(filled: Settings, tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="no results of 'nothing'"):
        exported(filled, "nothing", tmp_path / "export")
    assert not (tmp_path / "export").exists()


RUN = "bundles/job-1/run-1"


def _link(folder: Path) -> None:
    (folder / RUN / "engine.log").unlink()
    (folder / RUN / "engine.log").symlink_to("/etc/passwd")


def _no_bundle(folder: Path) -> None:
    (folder / RUN / "run.json").write_text("{}")
    _edited(folder, lambda files: files | {f"{RUN}/run.json": hashlib.sha256(b"{}").hexdigest()})


def _moved(source: str, target: str) -> Callable[[Path], None]:
    def move(folder: Path) -> None:
        _renamed(source, target)(folder)
        (folder / target).parent.mkdir(exist_ok=True)
        (folder / source).rename(folder / target)

    return move


def _renamed(source: str, target: str) -> Callable[[Path], None]:
    """Change the names in the manifest alone."""
    return lambda folder: _edited(folder, lambda files: {name.replace(source, target): files[name] for name in files})


def _edited(folder: Path, change: Callable[[dict[str, str]], object]) -> None:
    _set(folder, files=change(json.loads((folder / MANIFEST).read_text())["files"]))


def _set(folder: Path, **values: object) -> None:
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | values))


def _runs_removed(files: dict[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in files.items() if not name.startswith("bundles/")}


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (
            lambda folder: (folder / RUN / "engine.log").write_text("another"),
            f"{RUN}/engine.log was changed after the export: its digest differs",
        ),
        (
            lambda folder: (folder / RUN / "requests.parquet").unlink(),
            f"{RUN}/requests.parquet is missing or larger than a bundle's file can be",
        ),
        (
            lambda folder: (folder / RUN / "more").write_text(""),
            "job-1/run-1 does not have the files that its manifest lists",
        ),
        (_link, f"{RUN}/engine.log is not a valid path in an export"),
        (_moved(RUN, "bundles/job-1/run-3"), "job-1/run-3 holds another run: job-1/run-1"),
        (
            _renamed("bundles/job-1", "bundles/../job-1"),
            "bundles/../job-1/run-1/engine.log is not a valid path in an export",
        ),
        (
            _moved("bundles/job-1", "bundles/.job-1"),
            "bundles/.job-1/run-1/engine.log is not a file of a bundle",
        ),
        (
            lambda folder: _set(folder, version=2),
            "the export has version 2; this Drafthouse reads version 1: use the one that wrote it, or a newer one",
        ),
        (
            lambda folder: (folder / MANIFEST).write_text("[]"),
            "drafthouse-export.json is not the manifest of an export",
        ),
        (lambda folder: _set(folder, format="another"), "drafthouse-export.json is not the manifest of an export"),
        (lambda folder: (folder / MANIFEST).write_text("{"), "drafthouse-export.json is not valid JSON"),
        (lambda folder: _set(folder, files=[]), "drafthouse-export.json lists no files"),
        (lambda folder: _edited(folder, _runs_removed), "it contains no run"),
        (
            _moved(f"{RUN}/engine.log", f"{RUN}/more/engine.log"),
            f"{RUN}/more/engine.log is not a file of a bundle",
        ),
        (
            _moved(f"{RUN}/engine.log", "bundles/job-1/engine.log"),
            "bundles/job-1/engine.log is not a file of a bundle",
        ),
        (_moved(f"{RUN}/engine.log", f"{RUN}/other.log"), f"{RUN}/other.log is not a file of a bundle"),
        (_no_bundle, "job-1/run-1: {folder}/bundles/job-1/run-1/run.json cannot be read: 1 validation error for"),
    ],
)
def test_a_manipulated_export_is_refused_completely(
    filled: Settings, other: Settings, tmp_path: Path, damage: Callable[[Path], object], sentence: str
) -> None:
    folder = exported(filled, "job-1", tmp_path / "export")
    damage(folder)
    with pytest.raises(ForeignFileError) as caught:
        restore_as_measured(other.bundles, folder, lambda _jobs: None)
    assert str(caught.value).startswith(f"{folder}: {sentence.format(folder=folder)}")
    assert str(caught.value).count(sentence[-20:]) == 1
    assert list(other.bundles.iterdir()) == []


@pytest.mark.parametrize(
    "case",
    [
        (
            "_MAX_MANIFEST_BYTES",
            lambda folder: (folder / MANIFEST).stat().st_size,
            "drafthouse-export.json is too large",
        ),
        ("MAX_FILE_BYTES", lambda folder: max(_sizes(folder)), "is missing or larger than a bundle's file can be"),
        (
            "MAX_TABLE_BYTES",
            lambda folder: max(refuse_bomb(path, 2**30) for path in folder.glob("bundles/*/*/*.parquet")),
            "has more than 0 MiB when it is read",
        ),
    ],
)
def test_a_file_is_restored_up_to_its_limit(
    filled: Settings, other: Settings, monkeypatch: pytest.MonkeyPatch, case: tuple[str, Callable[[Path], int], str]
) -> None:
    limit, bytes_of, sentence = case
    folder = exported(filled, "job-1", filled.home.parent / "export")
    size = bytes_of(folder)
    monkeypatch.setattr(restore, limit, size - 1)
    with pytest.raises(ForeignFileError, match=sentence):
        restore_bundles(other.bundles, folder, "sue", lambda _size_bytes: None)
    monkeypatch.setattr(restore, limit, size)
    assert len(restore_bundles(other.bundles, folder, "sue", lambda _size_bytes: None).new_run_ids) == 2


def _sizes(folder: Path) -> list[int]:
    return [path.stat().st_size for path in folder.glob("bundles/*/*/*.parquet")]


def test_a_small_file_that_becomes_huge_is_refused_at_the_import(
    other: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = forged_export(tmp_path / "bomb", change=many_times(3000, "x" * 2**19))  # 1.5 GiB
    (requests,) = folder.rglob("requests.parquet")
    assert requests.stat().st_size < 2**18
    assert _table_bytes(requests) < 2**24
    with pytest.raises(ForeignFileError, match=r"requests\.parquet has more than 512 MiB when it is read"):
        import_paths(other, [folder], actor=OTHER_SUBMITTER)
    assert list(other.bundles.iterdir()) == []


def test_a_file_that_understates_its_pages_is_refused_by_its_memory(other: Settings, tmp_path: Path) -> None:
    folder = forged_export(tmp_path / "bomb", change=understated("x" * (400 * 2**20)))  # within MAX_TABLE_BYTES
    (requests,) = folder.rglob("requests.parquet")
    assert _table_bytes(requests) == 100
    with pytest.raises(ForeignFileError, match=r"requests\.parquet takes more memory to read than is available"):
        import_paths(other, [folder], actor=OTHER_SUBMITTER)
    assert list(other.bundles.iterdir()) == []


def test_a_huge_list_in_some_bytes_is_refused_before_reading(tmp_path: Path) -> None:
    long = pa.array([[0.5] * 1000] * 1000)
    pq.write_table(pa.table({"chunk_s": long}), tmp_path / "x.parquet")
    assert (tmp_path / "x.parquet").stat().st_size < 2**17
    with pytest.raises(BundleError, match="has more than 1 MiB when it is read"):
        refuse_bomb(tmp_path / "x.parquet", 2**20)
    assert refuse_bomb(tmp_path / "x.parquet", 2**24) > 8_000_000


def test_unpacked_bytes_count_for_the_day_and_long_texts_are_cut(other: Settings, tmp_path: Path) -> None:
    tight = other.model_copy(update={"import_mib_per_day": 40})
    folder = forged_export(tmp_path / "bomb", change=many_times(10, "x" * (MOST_CHARACTERS * 3)))
    import_paths(tight, [folder], actor=OTHER_SUBMITTER)
    ingest_all(tight)
    lengths = "select max(length(output_text)) from request_records"
    assert ask(tight, lengths) == [(MOST_CHARACTERS,)]
    again = forged_export(tmp_path / "again", change=many_times(10, "y" * (MOST_CHARACTERS * 3)))
    with pytest.raises(ForeignFileError, match="you have imported 30 MiB within 24 hours, and these 30 MiB"):
        import_paths(tight, [again], actor=OTHER_SUBMITTER)


def _table_bytes(path: Path) -> int:
    metadata = pq.ParquetFile(path).metadata
    return sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))


def test_an_export_is_imported_alone_and_without_labels(filled: Settings, tmp_path: Path) -> None:
    folder = exported(filled, "job-1", tmp_path / "export")
    for paths, labels in (([folder], {"hardware": "H200"}), ([folder, SAMPLES], {})):
        with pytest.raises(ForeignFileError, match="import it alone"):
            import_paths(filled, paths, labels=labels, actor=ADMIN)


def test_a_run_without_its_bundle_is_named_and_nothing_is_written(filled: Settings, tmp_path: Path) -> None:
    shutil.rmtree(filled.bundles / "job-1" / "run-1")
    with pytest.raises(UserError) as caught:
        exported(filled, "job-1", tmp_path / "export")
    assert str(caught.value) == (
        f"the bundle of run job-1/run-1 is missing in {filled.bundles}: the study cannot be exported"
    )
    assert [path.name for path in tmp_path.iterdir() if "export" in path.name] == []
