"""What is in the object store is whole or not there, and nobody replaces it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from host.settings import Settings
from lab.errors import BundleError
from tests.processes import REPOSITORY
from tests.warehouse.runs import request, write_run
from tests.warehouse.store.servers import Store
from warehouse.app_db.engine import open_engine
from warehouse.bundles.pending import pending_paths
from warehouse.bundles.store import Manifest, ObjectStore, Part, StoreAway, local_bundle
from warehouse.bundles.uploads import prepare, upload_all

PATH = "job-1/run-1"


@pytest.fixture(params=["s3", "file"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    """A store of each kind that can run here."""
    if request.param == "file":
        return ObjectStore(f"file://{tmp_path / 'store'}")
    store: Store = request.getfixturevalue("store")
    return ObjectStore(store.url)


def upload(store: ObjectStore, bundles: Path, path: str = PATH) -> tuple[str, bool]:
    return asyncio.run(store.upload(bundles, path))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_bundle_that_is_fetched_elsewhere_is_the_same(opened: ObjectStore, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "here")
    upload(opened, tmp_path / "here")
    assert opened.paths() == [PATH]
    assert opened.fetch(tmp_path / "there", PATH)
    assert files(tmp_path / "there") == {f"{PATH}/{name}": content for name, content in files(folder).items()}
    assert not opened.fetch(tmp_path / "there", "job-1/run-2")


def test_a_second_writer_is_refused_and_replaces_nothing(opened: ObjectStore, tmp_path: Path) -> None:
    first = write_run(tmp_path / "first")
    write_run(tmp_path / "second", (request(output_text="another answer"),))
    digest, is_first = upload(opened, tmp_path / "first")
    assert is_first
    assert upload(opened, tmp_path / "second") == (digest, False)
    assert upload(opened, tmp_path / "first") == (digest, True)  # its answer was lost, say
    assert opened.fetch(tmp_path / "there", PATH)
    assert files(tmp_path / "there" / PATH) == files(first)


def test_the_manifest_comes_last(store: Store, tmp_path: Path) -> None:
    write_run(tmp_path / "here")
    upload(ObjectStore(store.url), tmp_path / "here")
    written = list(dict.fromkeys(path for _, method, path, _ in store.requests() if method == "PUT"))[1:]
    assert [path.rsplit("/", 1)[1] for path in written][-1] == "run-1.json"
    assert len(written) == 5


def test_a_changed_part_is_refused(opened: ObjectStore, tmp_path: Path) -> None:
    write_run(tmp_path / "here")
    upload(opened, tmp_path / "here")
    import obstore  # noqa: PLC0415 - of this test alone

    (key,) = [
        item["path"] for page in obstore.list(opened._store) for item in page if item["path"].endswith("/run.json")
    ]
    obstore.put(opened._store, key, b"{}")
    with pytest.raises(BundleError, match=r"run\.json is not what its manifest lists"):
        opened.fetch(tmp_path / "there", PATH)
    assert not (tmp_path / "there" / PATH).exists()


def test_a_part_that_is_missing_is_damage_and_no_outage(opened: ObjectStore, tmp_path: Path) -> None:
    """An outage stops all fetching; what is damaged waits alone."""
    import obstore  # noqa: PLC0415 - of this test alone

    write_run(tmp_path / "here")
    upload(opened, tmp_path / "here")
    keys = [item["path"] for page in obstore.list(opened._store) for item in page]
    obstore.delete(opened._store, [key for key in keys if key.endswith("/requests.parquet")])
    with pytest.raises(BundleError, match=r"requests\.parquet is missing, and its manifest lists it"):
        opened.fetch(tmp_path / "there", PATH)
    assert not (tmp_path / "there" / PATH).exists()


def test_nothing_is_uploaded_to_a_store_that_overwrites(here: Settings, store: Store) -> None:
    prepare(here)
    write_run(here.bundles)
    store.behave("unconditional")
    with open_engine(here.app_database_url) as database, pytest.raises(StoreAway, match="lets a second writer replace"):
        upload_all(here, database)
    assert (pending_paths(here.bundles), ObjectStore(store.url).paths()) == ([PATH], [])


@pytest.mark.parametrize("name", ["../../escaped", "/escaped", "source/../../escaped", ".."])
def test_a_manifest_that_leads_out_of_its_bundle_is_refused(tmp_path: Path, name: str) -> None:
    opened = ObjectStore(f"file://{tmp_path / 'store'}")
    forged = Manifest(path=PATH, parts="parts", files={name: Part(sha256="0" * 64, size_bytes=1)})
    opened._put("runs/job-1/run-1.json", forged.content())
    with pytest.raises(BundleError, match="is not the manifest of job-1/run-1"):
        opened.fetch(tmp_path / "there", PATH)
    assert not (tmp_path / "there").exists()


def test_a_store_that_keeps_what_is_promised_has_no_problem(opened: ObjectStore) -> None:
    assert opened.problem() is None
    assert opened.paths() == []


@pytest.mark.parametrize(
    ("mode", "words"),
    [("unconditional", "lets a second writer replace an object"), ("503", "^writing failed: the object store s3://")],
)
def test_what_is_wrong_with_a_store_is_a_sentence(store: Store, mode: str, words: str) -> None:
    store.behave(mode)
    problem = ObjectStore(store.url).problem()
    assert problem is not None
    with pytest.raises(ValueError, match=words):
        raise ValueError(problem)


def test_a_bucket_that_does_not_exist_is_named(store: Store) -> None:
    nowhere = ObjectStore("s3://there-is-no-such-bucket/lab")
    assert "NoSuchBucket" in str(nowhere.problem())
    with pytest.raises(StoreAway, match="there-is-no-such-bucket"):
        nowhere.fetch(Path("unused"), PATH)


def test_a_bundle_is_read_wherever_it_is(here: Settings, elsewhere: Settings, tmp_path: Path) -> None:
    folder = write_run(here.bundles)
    assert here.bundles_url is not None
    upload(ObjectStore(here.bundles_url), here.bundles)
    assert files(local_bundle(elsewhere, "job-1", "run-1")) == files(folder)
    assert not local_bundle(elsewhere, "job-1", "run-2").exists()
    plain = Settings(home=tmp_path / "plain")
    assert local_bundle(plain, "job-1", "run-1") == plain.bundles / "job-1" / "run-1"


#: Reads and ingests a home without a store, and says whether the library of object stores was imported for it.
_PLAIN = """
import sys
from pathlib import Path
from host.settings import Settings
from warehouse.app_db.engine import open_engine
from warehouse.bundles.pending import pending_paths
from warehouse.bundles.store import local_bundle, local_job
from warehouse.ingest.service import ingest_all
settings = Settings(home=Path(sys.argv[1]))
ingest_all(settings)
local_bundle(settings, "job-1", "run-1"), local_job(settings, "job-1")
print("obstore" in sys.modules, sorted(path.name for path in settings.home.glob("bundles*")))
"""


def test_a_folder_needs_no_library_of_object_stores(settings: Settings) -> None:
    write_run(settings.bundles)
    command = [sys.executable, "-c", _PLAIN, str(settings.home)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "False ['bundles']\n"
