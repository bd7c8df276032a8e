"""What else programs may do: dashboards, imports, prices, datasets, published figures, advice; with roles and audit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from host.settings import Settings
from jobs import queue
from lab.roles import Actor, Role
from tests.actors import ADMIN
from tests.interchange.sample_files import SAMPLES
from tests.lab.studies import study
from tests.webapp.api.inside import ROLE, inside
from tests.webapp.homes import make_home
from tests.webapp.measured import measure_study
from warehouse.app_db import audit, pins, saved_views
from warehouse.app_db.engine import open_engine
from warehouse.ingest.service import ingest_all

VIEWER, SUBMITTER = {ROLE: "viewer"}, {ROLE: "submitter"}
PRICE = {"hardware": "H200", "source": "a list", "rented_per_hour": 3.6, "valid_from": "2026-01-01"}


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return make_home(tmp_path_factory.mktemp("operations"))


@pytest.fixture(scope="module")
def job_id(settings: Settings) -> str:
    return measure_study(settings, study(name="measured", repeats=2))


@pytest.fixture(scope="module")
def client(settings: Settings) -> Iterator[TestClient]:
    with inside(settings) as it:
        it.base_url = it.base_url.join("/api/v1/")
        yield it


def changes(settings: Settings) -> list[tuple[str, str, str]]:
    """Who, what and by what way, the last change first."""
    with open_engine(settings.app_database_url) as database:
        return [(entry.actor, entry.action, entry.via) for entry in audit.newest(database, 20)]


def test_a_lab_without_a_login_answers_programs_without_a_token(settings: Settings) -> None:
    with inside(settings, guarded=True) as client:
        assert client.get("/api/v1/me").json()["role"] == "administrator"
        assert client.get("/warehouse/latest", follow_redirects=False).status_code == 307
        foreign = {"Origin": "https://elsewhere.example"}
        assert client.post("/api/v1/dashboards", json={"name": "x"}, headers=foreign).status_code == 403


def test_dashboards_are_made_changed_and_restored_by_whoever_owns_them(client: TestClient, settings: Settings) -> None:
    made = client.post("dashboards", json={"name": "Weekly"}, headers=VIEWER).json()
    path = f"dashboards/{made['dashboard_id']}"
    assert (made["name"], made["owner"], made["pins"]) == ("Weekly", "a viewer", 0)
    figure = {"page": "compare", "parameters": {"job": ["x"]}, "figure": "ratios", "caption": "# Ratios"}
    pinned = client.post(f"{path}/figures", json=figure, headers=VIEWER).json()["pin_id"]
    for page in ("nothing", "jobs"):  # that there is none of, and that has no figures
        assert client.post(f"{path}/figures", json=figure | {"page": page}, headers=VIEWER).status_code == 404
    (shown,) = client.get(path).json()["figures"]
    assert {**figure, "as_of": None, "pin_id": pinned}.items() <= shown.items()
    with open_engine(settings.app_database_url) as database:  # as a page pins it, whose texts have other limits
        longer = pins.PinnedFigure("compare", {}, "f" * 201)
        pins.add(database, made["dashboard_id"], longer, "a\0b", actor=Actor("a viewer", Role.VIEWER))
    shown = client.get(path).json()["figures"][1]
    assert (shown["figure"], shown["caption"]) == (longer.figure, "a\0b")
    client.delete(f"{path}/figures/{shown['pin_id']}", headers=VIEWER)
    refused = client.patch(path, json={"name": "Mine"}, headers=SUBMITTER)
    assert (refused.status_code, "belongs to a viewer" in refused.json()["detail"]) == (403, True)
    assert client.patch(path, json={"name": "Monthly"}, headers=VIEWER).json()["name"] == "Monthly"
    copy = client.post(f"{path}/duplicate", json={"name": "Copy"}, headers=SUBMITTER).json()
    assert (copy["owner"], copy["pins"]) == ("a submitter", 1)
    assert client.delete(f"{path}/figures/{pinned}", headers=VIEWER).json()["figures"] == []
    assert client.delete(path, headers=VIEWER).json()["removed_at"] is not None
    assert [one["name"] for one in client.get("dashboards").json()] == ["Copy"]
    assert client.post(f"{path}/restore", headers=VIEWER).json()["removed_at"] is None
    assert changes(settings)[0] == ("a viewer", "dashboard.change", "api")
    assert client.get("dashboards/nothing").status_code == 404


def test_the_price_book_is_an_administrators(client: TestClient, settings: Settings) -> None:
    assert client.post("prices", json=PRICE, headers=SUBMITTER).status_code == 403
    added = client.post("prices", json=PRICE).json()
    assert (added["per_hour"], added["price"]["valid_from"]) == (3.6, "2026-01-01")
    both = PRICE | {"purchase_price": 30_000, "lifetime_years": 4, "utilisation": 0.5}
    assert "either rented_per_hour or owned" in client.post("prices", json=both).json()["detail"]
    withdrawn = client.post(f"prices/{added['price_id']}/withdraw").json()
    assert withdrawn["withdrawn_at"] is not None
    assert client.get("prices", headers=VIEWER).json() == [withdrawn]
    assert client.post("prices/4711/withdraw").status_code == 404
    assert changes(settings)[0] == ("a administrator", "price.change", "api")


def test_a_dataset_is_registered_from_the_body_and_removed(client: TestClient, settings: Settings) -> None:
    prompts = b"".join(b'{"prompt": "number %d"}\n' % number for number in range(20))
    assert client.put("datasets/mine", content=prompts, headers=SUBMITTER).status_code == 403
    added = client.put("datasets/mine?file=my prompts.jsonl", content=prompts).json()
    assert (added["state"], added["stock"]["rows"], added["original_name"]) == ("registered", 20, "my prompts.jsonl")
    for name in ("..%2F", "%2e%2e", ".hidden", "n" * 101):
        assert client.put(f"datasets/{name}", content=prompts).status_code in (404, 422)
    wrong = client.put("datasets/mine?file=../../x", content=b"{}\n")
    assert (wrong.status_code, "tmp" in wrong.json()["detail"]) == (400, False)
    assert "mine" in {dataset["name"] for dataset in client.get("datasets").json()}
    assert "mine" not in {dataset["name"] for dataset in client.delete("datasets/mine").json()}
    long = "n" * 100
    assert client.put(f"datasets/{long}", content=prompts).status_code == 201
    assert client.delete(f"datasets/{long}").status_code == 200
    assert changes(settings)[0] == ("a administrator", "dataset.change", "api")


def test_results_of_other_tools_are_imported_from_a_form(client: TestClient, settings: Settings) -> None:
    files = sorted(file for file in (SAMPLES / "vllm-bench").iterdir() if file.suffix == ".json")[:2]
    sent = [("file", (file.name, file.read_bytes())) for file in files]
    assert client.post("imports", files=sent, headers=VIEWER).status_code == 403
    assert client.post("imports", files=[("file", ("x.json", b"{}"))]).status_code == 400
    assert client.post("imports", files=sent, data={"label": "no label"}).status_code == 400
    many = [f"key {number}=value" for number in range(101)]
    for labels in (f"study={'x' * 201}", f"{'x' * 201}=a study", "study=a\0b", many):
        refused = client.post("imports", files=sent, data={"label": labels}, headers=SUBMITTER)
        assert (refused.status_code, "label" in refused.json()["detail"]) == (400, True)
    assert client.post("imports").status_code == 400
    done = client.post("imports", files=sent, data={"label": "study=from a form"}, headers=SUBMITTER)
    assert done.status_code == 201
    assert all(run["new"] and run["tool"] and run["target"] for run in done.json()["runs"])
    ingest_all(settings)
    found = client.post("sql", json={"sql": "select distinct study_name from results where origin = 'imported'"})
    assert found.json()["rows"] == [["from a form"]]
    assert changes(settings)[0] == ("a submitter", "import.add", "api")
    (imported,) = done.json()["jobs"]
    runs = client.get(f"jobs/{imported}/runs").json()
    assert {run["study_name"] for run in runs} == {"from a form"}
    assert client.get(f"jobs/{imported}/runs/{runs[0]['run_id']}/bundle").status_code == 200
    for name in ("..", ".", "%2e%2e", "nothing"):
        assert client.get(f"jobs/{name}/runs/{runs[0]['run_id']}/bundle").status_code == 404


def test_an_exported_folder_cannot_write_beside_itself(client: TestClient, settings: Settings) -> None:
    for name in ("../x", "/tmp/x", "a/../../x"):
        refused = client.post("imports", files=[("exported", (name, b"x"))])
        assert (refused.status_code, "not a path inside" in refused.json()["detail"]) == (400, True)
    refused = client.post("imports", files=[("exported", ("drafthouse-export.json", b"{}"))])
    assert (refused.status_code, "/tmp" in refused.json()["detail"]) == (400, False)


def test_a_body_without_its_length_is_not_read(client: TestClient) -> None:
    assert client.post("sql", content=iter([b"x"])).status_code == 411


def test_published_figures_are_listed_by_source(client: TestClient) -> None:
    sources = client.get("published").json()
    figures = client.get(f"published/{sources[0]['source']}").json()
    assert figures
    assert {figure["source"] for figure in figures} == {sources[0]["source"]}
    assert client.get("published/nothing").status_code == 400


def test_a_measured_study_is_advised_on_and_its_runs_are_listed(client: TestClient, job_id: str) -> None:
    advice = client.get("studies/measured/advice").json()
    assert all(suggestion["action"] and suggestion["reasons"] for suggestion in advice)
    runs = client.get(f"jobs/{job_id}/runs").json()
    assert {run["job_id"] for run in runs} == {job_id}
    shown = client.get(f"jobs/{job_id}").json()
    assert shown["study"]["name"] == "measured"
    assert client.get("jobs").json()["jobs"][0]["study"] is None


def test_a_queued_job_is_moved_by_an_administrator(client: TestClient, settings: Settings) -> None:
    with open_engine(settings.app_database_url) as database:
        job = queue._insert(database, study(name="waiting"), 0, ADMIN)
    assert client.post(f"jobs/{job}/priority", json={"priority": 3}, headers=SUBMITTER).status_code == 403
    assert client.post(f"jobs/{job}/priority", json={"priority": 3}).json()["priority"] == 3
    assert client.get("jobs?studies=true").json()["jobs"][0]["study"]["name"] == "waiting"


def test_a_study_is_named_hidden_deleted_and_restored(client: TestClient, settings: Settings, job_id: str) -> None:
    path = f"studies/{job_id}"
    assert client.patch(path, json={"note": "x"}, headers=SUBMITTER).status_code == 403
    changed = client.patch(path, json={"name": "renamed", "tags": ["b", "a"], "hidden": True}).json()
    assert (changed["name"], changed["tags"], changed["note"]) == ("renamed", ["a", "b"], "")
    assert client.get("studies/renamed").json()["depends"] == []
    assert job_id in [one["job_id"] for one in client.get("studies").json()]
    assert job_id not in [job["job_id"] for job in client.get("jobs").json()["jobs"]]
    assert job_id in [job["job_id"] for job in client.get("jobs?hidden=true").json()["jobs"]]
    refused = client.patch(path, json={"tags": ["no, commas"]})
    assert (refused.status_code, "cannot be a tag" in refused.json()["detail"]) == (400, True)
    assert client.delete(path).json()["called"] == "renamed"
    gone = client.get(f"jobs/{job_id}")
    assert (gone.status_code, "study restore" in gone.json()["detail"]) == (404, True)
    assert client.get(f"jobs/{job_id}/runs").status_code == 404
    assert client.get("studies/renamed").status_code == 404
    assert client.post("studies/renamed/restore", headers=SUBMITTER).status_code == 403
    assert client.post("studies/renamed/restore").json()["deleted_at"] is None
    assert changes(settings)[0] == ("a administrator", "study.change", "api")
    client.patch(path, json={"name": "", "tags": [], "hidden": False})
    assert client.get(path).json()["name"] is None


def test_a_saved_query_answers_by_its_name_with_parameters(client: TestClient, settings: Settings) -> None:
    sql = "SELECT arm, count(*) AS runs FROM results WHERE arm = $arm AND repeat >= $from GROUP BY ALL"
    with open_engine(settings.app_database_url) as database:
        view_id = saved_views.save(database, "sql", {"sql": sql, "drawn": None}, actor=ADMIN)
        saved_views.name_view(database, "sql", "runs of/an arm", view_id, actor=ADMIN)
    assert [(one["name"], one["parameters"]) for one in client.get("queries").json()] == [
        ("runs of/an arm", ["arm", "from"])
    ]
    address = "queries/runs%20of%2Fan%20arm"
    found = client.get(address, params={"arm": "no draft", "from": "1"}, headers=VIEWER)
    assert (found.status_code, found.json()["columns"]) == (200, ["arm", "runs"])
    (row,) = found.json()["rows"]
    assert row[0] == "no draft"
    assert client.get(address, params={"arm": "' OR 1=1 --", "from": "0", "format": "csv"}).text == '"arm","runs"\n'
    missing = client.get(address, params={"arm": "x"})
    assert (missing.status_code, missing.json()["detail"]) == (400, "give a value for $from")
    assert client.get("queries/none").status_code == 404
    for values, where in (
        ({"arm": "x" * 10_001}, "parameters.arm"),
        ({f"p{n}": "1" for n in range(101)}, "parameters"),
    ):
        refused = client.get(address, params=values)
        assert (refused.status_code, refused.json()["problems"][0]["field"]) == (422, where)
