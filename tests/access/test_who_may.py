"""Every change of a lab, by each role: the function that makes it decides, and writes one row of the audit table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from types import ModuleType

import pytest

from access import accounts, shared_links, tokens
from access.local import local_actor
from access.shared_links import Kind
from interchange.store import import_paths
from jobs import curation, order, queue
from jobs.datasets.listing import add_dataset, remove_dataset
from jobs.fleet import hosts, leases, worker_registry
from jobs.judging import judge_again
from lab.cost import Price
from lab.errors import AccessError, UserError
from lab.roles import Actor, Change, Role
from tests.actors import ADMIN, OTHER_SUBMITTER, SUBMITTER, VIEWER
from tests.webapp.test_finished_study import BEGAN, measure
from tests.workers.homes import Home
from warehouse.app_db import audit, dashboards, pins, price_book, saved_views
from warehouse.ingest.service import ingest_all

ALL = (ADMIN, SUBMITTER, OTHER_SUBMITTER, VIEWER)
SAMPLE = Path(__file__).parents[1] / "interchange" / "samples" / "vllm-bench" / "base-code-c1.json"
PRICE = Price(hardware="H200", valid_from=date(2026, 1, 1), currency="USD", source="a list", rented_per_hour=3.5)
FIGURE = pins.PinnedFigure("results", {"job": ("1",)}, "speedup")


@dataclass(frozen=True)
class Case:
    """A change of what SUBMITTER owns, made ready by `prepare`, and who may make it."""

    change: Change
    make: Callable[[Home, str, Actor], object]
    by: tuple[Actor, ...]
    prepare: Callable[[Home], str] = lambda _home: ""


def _queued(home: Home) -> str:
    return queue.submit(home.settings, home.study(), actor=SUBMITTER)


def _failed(home: Home) -> str:
    job_id = _queued(home)
    leases.claim(home.database, "w", 30.0)
    leases.finish(home.database, job_id, "w", "failed", error="gone")
    return job_id


def _deleted(home: Home) -> str:
    curation.delete(home.settings, home.database, job_id := _failed(home), actor=SUBMITTER)
    return job_id


def _measured(home: Home) -> str:
    measure(home.settings, "measured", BEGAN, repeats=range(2))
    ingest_all(home.settings)
    return "measured"


def _two_queued(home: Home) -> str:
    _queued(home)
    return _queued(home)


def _set_aside(home: Home) -> str:
    for _ in range(hosts.MOST_IN_A_ROW):
        hosts.record_failure(home.database, "w1", "no disk")
    return "w1"


def _present(home: Home) -> str:
    worker_registry.register_worker(home.database, "w1/1", host="w1", hardware="x", gpus=0, is_dead=lambda _: False)
    return "w1"


def _priced(home: Home) -> str:
    return str(price_book.add(home.database, PRICE, actor=ADMIN))


def _registered(home: Home) -> str:
    add_dataset(home.settings, "mine", home.folder / "prompts.jsonl", actor=ADMIN)
    return "mine"


def _dashboard(home: Home) -> str:
    return dashboards.create(home.database, "mine", actor=SUBMITTER)


def _removed_dashboard(home: Home) -> str:
    dashboards.remove(home.database, board := _dashboard(home), actor=SUBMITTER)
    return board


def _pin(home: Home) -> str:
    return pins.add(home.database, _dashboard(home), FIGURE, "", actor=SUBMITTER)


def _removed_pin(home: Home) -> str:
    pins.remove(home.database, pin := _pin(home), actor=SUBMITTER)
    return pin


def _view(home: Home) -> str:
    return saved_views.save(home.database, "sql", {"sql": "select 1"}, actor=ADMIN)


def _named(home: Home) -> str:
    saved_views.name_view(home.database, "sql", "mine", view := _view(home), actor=SUBMITTER)
    return view


def _share(home: Home, actor: Actor) -> str:
    day = timedelta(days=1)
    return shared_links.make_link(home.database, Kind.STUDY, "1", "one", lasts=day, most=day, actor=actor)[0].link_id


_OWNERS, _ADMINS = (ADMIN, SUBMITTER), (ADMIN,)
_SUBMITTERS = (ADMIN, SUBMITTER, OTHER_SUBMITTER)
CASES = {
    "submit": Case(Change.SUBMIT, lambda h, _, a: queue.submit(h.settings, h.study(), actor=a), _SUBMITTERS),
    "submit before others": Case(
        Change.SUBMIT, lambda h, _, a: queue.submit(h.settings, h.study(), 1, actor=a), _ADMINS
    ),
    "submit behind others": Case(
        Change.SUBMIT, lambda h, _, a: queue.submit(h.settings, h.study(), -1, actor=a), _SUBMITTERS
    ),
    "cancel": Case(Change.CANCEL, lambda h, job, a: queue.cancel(h.database, job, actor=a), _OWNERS, _queued),
    "retry": Case(Change.RETRY, lambda h, job, a: queue.retry(h.database, job, actor=a), _OWNERS, _failed),
    "judge again": Case(
        Change.JUDGE, lambda h, job, a: judge_again(h.settings, h.database, job, actor=a), _SUBMITTERS, _measured
    ),
    "note": Case(
        Change.CURATE, lambda h, job, a: curation.change(h.database, job, actor=a, note="x"), _OWNERS, _queued
    ),
    "delete a study": Case(
        Change.CURATE, lambda h, job, a: curation.delete(h.settings, h.database, job, actor=a), _OWNERS, _failed
    ),
    "restore a study": Case(
        Change.CURATE, lambda h, job, a: curation.restore(h.settings, h.database, job, actor=a), _OWNERS, _deleted
    ),
    "priority": Case(Change.ORDER, lambda h, job, a: order.reprioritise(h.database, job, 3, actor=a), _ADMINS, _queued),
    "move up": Case(Change.ORDER, lambda h, job, a: order.move_up(h.database, job, actor=a), _ADMINS, _two_queued),
    "mend a host": Case(Change.HOSTS, lambda h, host, a: hosts.mend(h.database, host, actor=a), _ADMINS, _set_aside),
    "drain a host": Case(
        Change.HOSTS, lambda h, host, a: worker_registry.drain(h.database, host, actor=a), _ADMINS, _present
    ),
    "add a price": Case(Change.PRICES, lambda h, _, a: price_book.add(h.database, PRICE, actor=a), _ADMINS),
    "withdraw a price": Case(
        Change.PRICES, lambda h, number, a: price_book.withdraw(h.database, int(number), actor=a), _ADMINS, _priced
    ),
    "add a dataset": Case(
        Change.DATASETS,
        lambda h, _, a: add_dataset(h.settings, "new", h.folder / "prompts.jsonl", actor=a),
        _ADMINS,
    ),
    "remove a dataset": Case(
        Change.DATASETS, lambda h, name, a: remove_dataset(h.settings, name, actor=a), _ADMINS, _registered
    ),
    "import": Case(Change.IMPORT, lambda h, _, a: import_paths(h.settings, [SAMPLE], actor=a), _SUBMITTERS),
    "create a dashboard": Case(Change.DASHBOARD, lambda h, _, a: dashboards.create(h.database, "new", actor=a), ALL),
    "rename a dashboard": Case(
        Change.DASHBOARD, lambda h, board, a: dashboards.rename(h.database, board, "x", actor=a), _OWNERS, _dashboard
    ),
    "remove a dashboard": Case(
        Change.DASHBOARD, lambda h, board, a: dashboards.remove(h.database, board, actor=a), _OWNERS, _dashboard
    ),
    "restore a dashboard": Case(
        Change.DASHBOARD,
        lambda h, board, a: dashboards.restore(h.database, board, actor=a),
        _OWNERS,
        _removed_dashboard,
    ),
    "duplicate a dashboard": Case(
        Change.DASHBOARD, lambda h, board, a: dashboards.duplicate(h.database, board, "x", actor=a), ALL, _dashboard
    ),
    "pin": Case(
        Change.DASHBOARD, lambda h, board, a: pins.add(h.database, board, FIGURE, "", actor=a), _OWNERS, _dashboard
    ),
    "change a pin": Case(
        Change.DASHBOARD, lambda h, pin, a: pins.change(h.database, pin, "so", None, actor=a), _OWNERS, _pin
    ),
    "move a pin": Case(Change.DASHBOARD, lambda h, pin, a: pins.move(h.database, pin, None, actor=a), _OWNERS, _pin),
    "remove a pin": Case(Change.DASHBOARD, lambda h, pin, a: pins.remove(h.database, pin, actor=a), _OWNERS, _pin),
    "restore a pin": Case(
        Change.DASHBOARD, lambda h, pin, a: pins.restore(h.database, pin, actor=a), _OWNERS, _removed_pin
    ),
    "name a view": Case(
        Change.NAMED_VIEW,
        lambda h, view, a: saved_views.name_view(h.database, "sql", "new", view, actor=a),
        ALL,
        _view,
    ),
    "take a name": Case(
        Change.NAMED_VIEW,
        lambda h, view, a: saved_views.name_view(h.database, "sql", "mine", view, actor=a),
        _OWNERS,
        _named,
    ),
    "remove a name": Case(
        Change.NAMED_VIEW, lambda h, _, a: saved_views.remove_name(h.database, "sql", "mine", actor=a), _OWNERS, _named
    ),
    "share": Case(Change.SHARE, lambda h, _, a: _share(h, a), ALL),
    "end a shared link": Case(
        Change.SHARE,
        lambda h, link, a: shared_links.revoke(h.database, link, actor=a),
        _OWNERS,
        lambda h: _share(h, SUBMITTER),
    ),
}


@pytest.mark.usefixtures("workers_stay")
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_only_those_who_may_make_a_change_and_one_row_each(home: Home, case: Case) -> None:
    subject = case.prepare(home)
    before = audit.newest(home.database, 100)
    for actor in ALL:
        if actor not in case.by:
            with pytest.raises(AccessError, match=r"^you may not "):
                case.make(home, subject, actor)
    assert audit.newest(home.database, 100) == before
    last = case.by[-1]
    case.make(home, subject, last)
    new = audit.newest(home.database, 100)[: -len(before) or None]
    assert [(entry.actor, entry.role, entry.via, entry.action) for entry in new] == [
        (last.name, last.role, "page", case.change)
    ]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.by == _OWNERS])
def test_an_administrator_may_change_what_another_owns(home: Home, name: str) -> None:
    case = CASES[name]
    subject = case.prepare(home)
    case.make(home, subject, ADMIN)
    assert audit.newest(home.database, 1)[0].actor == "ada"


def test_a_job_and_its_events_name_who_made_them(home: Home) -> None:
    job_id = _queued(home)
    queue.cancel(home.database, job_id, actor=ADMIN)
    assert home.job(job_id).submitted_by == "sam"
    named = [(event.kind, event.actor) for event in queue.events(home.database, job_id)]
    assert named == [("submitted", "sam"), ("cancelled", "ada")]
    cancelled, submitted = audit.newest(home.database, 10)
    assert (cancelled.subject, cancelled.detail) == (job_id, {"was": "queued"})
    assert (submitted.subject, submitted.detail) == (job_id, {"study": "test study", "priority": 0})


def test_what_fails_leaves_no_row(home: Home) -> None:
    job_id = _queued(home)
    rows = audit.newest(home.database, 100)
    with pytest.raises(UserError, match="only a job that has ended"):
        queue.retry(home.database, job_id, actor=ADMIN)
    with pytest.raises(UserError, match="no price 7"):
        price_book.withdraw(home.database, 7, actor=ADMIN)
    dashboards.remove(home.database, "unknown", actor=ADMIN)
    saved_views.remove_name(home.database, "sql", "unknown", actor=ADMIN)
    assert audit.newest(home.database, 100) == rows


def test_at_this_machine_the_systems_user_is_an_administrator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "linus")
    assert local_actor() == Actor("linus", Role.ADMINISTRATOR, "command")
    assert local_actor("page").via == "page"


@pytest.mark.parametrize(
    ("module", "most", "make"),
    [
        (queue, "MOST_WAITING", lambda home, _number: _queued(home)),
        (dashboards, "MOST_OWN", lambda home, number: dashboards.create(home.database, number, actor=SUBMITTER)),
        (
            saved_views,
            "MOST_NAMED",
            lambda home, name: saved_views.name_view(home.database, "sql", name, _view(home), actor=SUBMITTER),
        ),
        (
            tokens,
            "MOST_TOKENS",
            lambda home, label: tokens.add_token(home.database, "sam", label, Role.VIEWER, actor=SUBMITTER),
        ),
    ],
)
def test_nobody_stores_more_than_others_can_look_through(
    home: Home, monkeypatch: pytest.MonkeyPatch, module: ModuleType, most: str, make: Callable[[Home, str], object]
) -> None:
    accounts.add_user(home.database, SUBMITTER.name, SUBMITTER.role, actor=ADMIN)
    monkeypatch.setattr(module, most, 2)
    for number in "12":
        make(home, number)
    with pytest.raises(AccessError, match="2 "):
        make(home, "3")


def test_changes_a_day_are_limited_but_stopping_is_not(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "MOST_CHANGES_PER_DAY", 3)
    job_id = _queued(home)
    for name in "ab":
        dashboards.create(home.database, name, actor=SUBMITTER)
    with pytest.raises(AccessError, match="you have made 3 changes within 24 hours"):
        dashboards.create(home.database, "c", actor=SUBMITTER)
    queue.cancel(home.database, job_id, actor=SUBMITTER)
    dashboards.create(home.database, "c", actor=OTHER_SUBMITTER)
    for name in "defg":
        dashboards.create(home.database, name, actor=ADMIN)


def test_the_audit_table_cuts_what_a_visitor_makes_long(home: Home) -> None:
    with home.database.begin() as connection:
        audit.record(connection, VIEWER, "a word", "x" * 10_000, text="y" * 10_000)
    (entry,) = audit.newest(home.database, 1)
    assert len(entry.subject) == audit.MOST_SUBJECT
    assert list(entry.detail) == ["cut"]
    assert len(entry.detail["cut"]) == audit.MOST_DETAIL // 2


def test_studies_are_bounded_each_and_in_a_day(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    _queued(home)
    monkeypatch.setattr(queue, "MOST_BYTES_PER_DAY", 1)
    with pytest.raises(AccessError, match="MiB of studies within 24 hours"):
        _queued(home)
    queue.submit(home.settings, home.study(), actor=ADMIN)
    monkeypatch.setattr(queue, "MOST_STUDY_LENGTH", 100)
    with pytest.raises(UserError, match="a study has 100 at most"):
        queue.submit(home.settings, home.study(), actor=ADMIN)


def test_a_full_queue_takes_no_job_again_but_an_administrators(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = _failed(home)
    monkeypatch.setattr(queue, "MOST_WAITING", 1)
    _queued(home)
    with pytest.raises(AccessError, match="you already have 1 waiting jobs"):
        queue.retry(home.database, ended, actor=SUBMITTER)
    queue.retry(home.database, ended, actor=ADMIN)
    for _ in range(2):
        queue.submit(home.settings, home.study(), actor=ADMIN)
    assert len(queue.active(home.database)) == 4
