"""The ingester, the only process that opens the master. `python -m warehouse.ingest.service` runs it until SIGTERM.

It can be killed at any line without losing anything: bundles are the truth, each is ingested in one transaction, and a
new ingester begins by publishing what its master holds.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import sqlalchemy as sa

from host import quiet
from host.private_files import write_for_nobody_else
from host.process_memory import do_without_pandas, limit_memory
from host.settings import Settings, load_settings
from lab.errors import RevisionError, UserError
from warehouse.app_db.engine import DATABASE_ERRORS, database_words, open_engine
from warehouse.bundles.pending import is_pending
from warehouse.bundles.removed import removed_folder, removed_jobs, removed_runs
from warehouse.bundles.run_bundle import RUN_FILE, is_being_written
from warehouse.bundles.store import open_store
from warehouse.bundles.uploads import upload_all, uploading
from warehouse.ingest import judgements
from warehouse.ingest.app_tables import AppReader, AppTables, replicate_app_tables
from warehouse.ingest.bundle_rows import (
    add_bundles,
    batches,
    forget_rejection,
    forget_removed,
    forget_runs,
    record_rejection,
    rejection,
)
from warehouse.ingest.job_verdicts import SeenRuns, changed_jobs, judge_jobs
from warehouse.ingest.master import MASTER_ERRORS, only_ingester, refresh
from warehouse.ingest.new_bundles import NewBundles, StoredBundles
from warehouse.ingest.opened import Opened
from warehouse.ingest.publication import Master
from warehouse.queries.rows import Row

#: Bundles are ingested for at most this long before the master is published.
BUDGET_S = 2.0
#: A bundle that was rejected is tried again: at first at once, because the files of a new folder may appear late on a
#: network's file system, then after as long as it has been failing, and at last at this interval.
RETRY_REJECTED_S = 60.0
_RETRY_AT_ONCE_S = 1.0
#: A folder is read again in every round for this long after it changed.
_SETTLES_S = 1.0
#: Pause after a full disk, or a master that cannot be opened.
RETRY_S = 2.0
_PATHS = "SELECT job_id || '/' || run_id FROM runs"
_log = logging.getLogger("drafthouse.ingester")


@dataclass
class SetAside:
    """A bundle that was rejected, or a job whose runs could not be judged together. Times are monotonic."""

    reason: str  # as in the table rejected_bundles
    first_s: float
    last_s: float
    is_recorded: bool = False
    is_final: bool = False  # it is not tried again

    def is_due(self, now_s: float) -> bool:
        """Return whether it is due to be tried again."""
        if self.is_final:
            return False
        pause_s = max(_RETRY_AT_ONCE_S, self.last_s - self.first_s)
        return now_s - self.last_s >= min(pause_s, RETRY_REJECTED_S)


@dataclass
class Ingester:
    """The state of one ingester: its master and what it has ingested, judged, rejected and published."""

    settings: Settings
    master: Master
    app_tables: AppReader
    new_bundles: NewBundles | StoredBundles
    ingested: set[str]  # paths of the bundles in the master, relative to the folder of bundles
    unjudged: set[str]  # jobs with runs that were not judged with the others yet
    published: bool  # whether the published file equals the master
    set_aside: dict[str, SetAside]  # by path, or by the job's id
    opened: Opened
    waiting: dict[str, Path] = field(default_factory=dict)  # bundles that were found and not tried yet, by path
    seen: SeenRuns = field(default_factory=SeenRuns)
    only_grown: bool = True  # no row of a run was removed since the last publication
    refused: str = ""  # why the app tables cannot be read, as last logged
    removed_ns: int = -1  # when results were removed last, as far as this ingester has looked
    removed_seen: set[str] = field(default_factory=set)  # folders of removed results
    judged_ns: int = -1  # likewise when a job was judged last
    may_have_ended: bool = True  # whether a job may have ended that is not judged yet
    unjudgeable: set[str] = field(default_factory=set)  # jobs that ended and failed to be judged

    def knows(self, path: str) -> bool:
        """Return whether a bundle was ingested or set aside."""
        return path in self.ingested or path in self.set_aside

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """Return the open master; see `Master.connection` for the cost of its first use after a publication."""
        return self.master.connection


def ingest_once(ingester: Ingester, budget_s: float = BUDGET_S, *, all_jobs: bool = False) -> bool:
    """Ingest new bundles, replicate the app tables, publish. Return whether more bundles are waiting.

    `all_jobs` looks for bundles in the folders of all jobs, else of those that are likely to have new ones. A round in
    which nothing happened does not touch the master. Raises OSError or duckdb.Error if the disk is full or the master
    broken; call again with a new Ingester then.
    """
    deadline = time.monotonic() + budget_s
    more = False
    _look_after_set_aside(ingester)
    if isinstance(ingester.new_bundles, StoredBundles):
        ingester.new_bundles.read_rows(ingester.knows)
    _forget_removed_runs(ingester)
    for batch in _batches(ingester, _new_bundles(ingester, all_jobs=all_jobs)):
        if time.monotonic() > deadline:
            more = True
            break
        _ingest(ingester, batch)
    with _named("copying the app tables"):
        _replicate(ingester)  # before judging: a study's own price is judged with its runs
    if not more:
        _judge(ingester)
        with _named("storing the verdicts of a job that has ended"):
            more = _store_verdicts(ingester, deadline)
    if not ingester.published:
        with _named("publishing"):
            ingester.master.publish(only_grown=ingester.only_grown)
        ingester.published = ingester.only_grown = True
    elif not more:
        with _named("preparing the next publication"):
            ingester.master.prepare()
    return more


@contextlib.contextmanager
def _named(operation: str) -> Iterator[None]:
    """Add the operation's name to an error, for the log."""
    try:
        yield
    except Exception as error:
        error.add_note(operation)
        raise


def _new_bundles(ingester: Ingester, *, all_jobs: bool) -> dict[str, Path]:
    """Return the bundles to ingest or to try again, by path."""
    root, running = ingester.settings.bundles, ingester.app_tables.running_jobs()
    for folder in ingester.new_bundles.find(ingester.knows, running, all_jobs=all_jobs):
        ingester.waiting[str(folder.relative_to(root))] = folder
    again = {path: root / path for path in _due(ingester) if "/" in path}
    return dict(sorted((ingester.waiting | again).items()))


def _due(ingester: Ingester) -> list[str]:
    """Return the paths and jobs to try again."""
    now_s = time.monotonic()
    return [path for path, aside in ingester.set_aside.items() if aside.is_due(now_s)]


def _batches(ingester: Ingester, folders: Mapping[str, Path]) -> Iterator[Mapping[str, Path]]:
    """Divide bundles into batches. A bundle that was set aside, perhaps because of another, or with
    which the ingester died, is tried again alone, after the others.
    """
    paths = {folder: path for path, folder in folders.items()}
    alone = {path for path in folders if path in ingester.set_aside or ingester.opened.is_suspect(path)}
    for batch in batches(folder for path, folder in folders.items() if path not in alone):
        yield {paths[folder]: folder for folder in batch}
    yield from ({path: folder} for path, folder in folders.items() if path in alone)


def _ingest(ingester: Ingester, batch: Mapping[str, Path]) -> None:
    for path in batch:
        ingester.waiting.pop(path, None)
    try:
        with _named(f"ingesting {', '.join(batch)}"), ingester.opened.reading(batch):
            rejected = add_bundles(ingester.connection, ingester.settings.bundles, batch.values())
    except MASTER_ERRORS as error:  # if one of them is the reason, the others continue once the master is open again
        for path in batch:
            _set_aside(ingester, path, error)
        raise
    for path, folder in batch.items():
        if folder in rejected:
            _set_aside(ingester, path, rejected[folder])
            continue
        ingester.set_aside.pop(path, None)
        ingester.ingested.add(path)
        ingester.unjudged.add(folder.parent.name)
        ingester.published, ingester.may_have_ended = False, True
        _log.info("ingested %s", path)
    _record_rejections(ingester)


def _judge(ingester: Ingester) -> None:
    jobs = ingester.unjudged - ingester.set_aside.keys()
    jobs |= {job_id for job_id in _due(ingester) if "/" not in job_id}
    if not jobs:
        return
    alone = [[job_id] for job_id in sorted(jobs) if ingester.opened.is_suspect(job_id)]
    together = sorted(job_id for job_id in jobs if not ingester.opened.is_suspect(job_id))
    errors: dict[str, Exception | None] = {}
    for judged in filter(None, [together, *alone]):
        with _named("judging the runs of a job together"), ingester.opened.reading(judged):
            errors |= judge_jobs(ingester.connection, ingester.settings.bundles, judged, ingester.seen)
    ingester.unjudged -= jobs
    for job_id, error in errors.items():
        if error is not None:
            _set_aside(ingester, job_id, error)
        else:
            ingester.set_aside.pop(job_id, None)
            ingester.published = False
    _record_rejections(ingester)


def _store_verdicts(ingester: Ingester, deadline_s: float) -> bool:
    """Judge jobs that have ended, and read what was judged elsewhere. Return whether the deadline left jobs over."""
    _read_judgements(ingester)
    if not ingester.may_have_ended:
        return False
    ingester.may_have_ended = False
    for job in judgements.ended_jobs(ingester.connection):
        if job["job_id"] in ingester.unjudgeable:
            continue
        if not _has_all_bundles(ingester, job["job_id"]):
            ingester.may_have_ended = True
        elif time.monotonic() > deadline_s:
            ingester.may_have_ended = True
            return True
        else:
            _store_verdict(ingester, job)
    return False


def _store_verdict(ingester: Ingester, job: Row) -> None:
    """Judge a job and store its verdicts. One that cannot be judged, or written, is recorded and does not stop the
    others: the next ingester tries it again, and until then its verdicts are computed when they are shown.
    """
    job_id = job["job_id"]
    try:
        judgement = judgements.judge_ended_job(ingester.connection, job)
        judgements.store_judgement(ingester.connection, ingester.settings.bundles, judgement)
    except Exception as error:
        if isinstance(error, MASTER_ERRORS) and not isinstance(error, OSError):  # the disk of the verdicts
            raise
        _log.exception("the verdicts of %s are not stored", job_id)
        ingester.unjudgeable.add(job_id)
        record_rejection(ingester.connection, job_id, f"its verdicts are not stored: {rejection(error)}")
    else:
        if job_id not in ingester.set_aside:
            forget_rejection(ingester.connection, job_id)
    ingester.published = False


def _read_judgements(ingester: Ingester) -> None:
    """Read what was judged again, or before this master was made."""
    bundles = ingester.settings.bundles
    modified_ns = judgements.modified_ns(bundles)
    if modified_ns == ingester.judged_ns:
        return
    added, removed, errors = judgements.read_stored(ingester.connection, bundles)
    for error in errors:
        _log.warning("%s", error)
    ingester.published &= not (added or removed)
    ingester.only_grown &= not removed
    if _has_settled(modified_ns):
        ingester.judged_ns = modified_ns


def _has_all_bundles(ingester: Ingester, job_id: str) -> bool:
    """Return whether every bundle of a job that has ended is ingested, or was rejected for good."""
    if isinstance(ingester.new_bundles, StoredBundles) and ingester.new_bundles.awaits(job_id):
        return False
    with contextlib.suppress(FileNotFoundError):
        for folder in (ingester.settings.bundles / job_id).iterdir():
            path = f"{job_id}/{folder.name}"
            if path in ingester.ingested or is_being_written(folder.name) or not (folder / RUN_FILE).exists():
                continue
            aside = ingester.set_aside.get(path)
            if aside is None or not (aside.is_final or time.monotonic() - aside.first_s > RETRY_REJECTED_S):
                return False
    return True


def _set_aside(ingester: Ingester, path: str, error: Exception) -> None:
    now_s, before = time.monotonic(), ingester.set_aside.get(path)
    ingester.set_aside[path] = SetAside(rejection(error), now_s if before is None else before.first_s, now_s)


def _look_after_set_aside(ingester: Ingester) -> None:
    """Record rejections that a failing master could not take, and forget bundles that have been removed."""
    _record_rejections(ingester)
    root = ingester.settings.bundles
    if gone := [path for path in ingester.set_aside if not (root / path).exists()]:
        for path in gone:
            del ingester.set_aside[path]
        if forget_removed(ingester.connection, root):
            ingester.published = False


def _forget_removed_runs(ingester: Ingester) -> None:
    """Remove the runs of removed bundles from the master; the rest of their jobs is judged again."""
    root = ingester.settings.bundles
    with contextlib.suppress(FileNotFoundError):
        modified_ns = removed_folder(root).stat().st_mtime_ns
        if modified_ns == ingester.removed_ns:
            return
        jobs, moved = removed_jobs(root), removed_runs(root, ingester.removed_seen)
        of_jobs = (path for path in ingester.ingested if path.partition("/")[0] in jobs)
        # What was moved aside and imported anew has other labels.
        gone = {path for path in of_jobs if path in moved or not (root / path / RUN_FILE).exists()}
        if gone:
            with _named("forgetting removed results"):
                forget_runs(ingester.connection, gone)
            ingester.ingested -= gone
            again = {path: root / path for path in gone if not is_pending(root, path)}
            ingester.waiting |= {path: folder for path, folder in again.items() if (folder / RUN_FILE).exists()}
            left = {path.partition("/")[0] for path in ingester.ingested}
            ingester.unjudged |= left & {path.partition("/")[0] for path in gone}
            ingester.published = ingester.only_grown = False
            _log.info("forgot %s removed runs", len(gone))
        if _has_settled(modified_ns):
            ingester.removed_ns = modified_ns


def _has_settled(modified_ns: int) -> bool:
    """Return whether a later change of the folder has another time: the clock of a file system has coarse ticks."""
    return time.time_ns() - modified_ns > _SETTLES_S * 1e9


def _record_rejections(ingester: Ingester) -> None:
    """Record why bundles and jobs were set aside; the others are ingested regardless."""
    for path, aside in ingester.set_aside.items():
        if aside.is_recorded:
            continue
        if record_rejection(ingester.connection, path, aside.reason):
            _log.warning("%s is set aside: %s", path, aside.reason)
            ingester.published = False
        aside.is_recorded = True


def _replicate(ingester: Ingester) -> None:
    """Replicate the app tables if they changed. Ingestion continues while that database cannot be read."""
    try:
        tables = ingester.app_tables.changed()
    except (*DATABASE_ERRORS, RevisionError, ValueError, TypeError) as error:
        _log_unread(ingester, error)
        return
    ingester.refused = ""
    if not tables:
        return
    ingester.master.changed_jobs = _with_changed(ingester.master.changed_jobs, tables)
    if replicate_app_tables(ingester.connection, tables):
        ingester.published, ingester.may_have_ended = False, True


def _log_unread(ingester: Ingester, error: Exception) -> None:
    """Log why the app tables cannot be read, once: an outage, or a newer Drafthouse's database, may last for hours."""
    is_away = isinstance(error, DATABASE_ERRORS)
    words = database_words(error) if is_away else f"{type(error).__name__}: {error}"
    sentence = str(error) if isinstance(error, RevisionError) else f"the app database cannot be read ({words})"
    if sentence != ingester.refused:
        trace = None if is_away or isinstance(error, RevisionError) else error  # of a row that another version wrote
        _log.error("%s. Bundles are ingested, but jobs in the warehouse are not up to date", sentence, exc_info=trace)
        ingester.refused = sentence


def _with_changed(job_ids: set[str] | None, tables: AppTables) -> set[str] | None:
    """Add the jobs in these tables; None if they are unknown, or all."""
    if (read := tables.get("jobs")) is None or job_ids is None:
        return job_ids
    return None if read.is_whole else job_ids.union(map(str, read.rows["job_id"].to_pylist()))


@contextlib.contextmanager
def open_ingester(
    settings: Settings, app: sa.Engine, set_aside: dict[str, SetAside] | None = None
) -> Iterator[Ingester]:
    """Open the master; `set_aside` is that of the ingester before. The caller holds `only_ingester`."""
    set_aside = {} if set_aside is None else set_aside
    for aside in set_aside.values():
        aside.is_recorded = False  # unless it was in the master's last checkpoint
    with contextlib.ExitStack() as stack:
        master = stack.enter_context(contextlib.closing(Master(settings.master_file, settings.warehouse_file)))
        master.make()
        refresh(master.connection)
        forget_removed(master.connection, settings.bundles)
        ingested = {path for (path,) in master.connection.execute(_PATHS).fetchall()}
        studies = [study_id for (study_id,) in master.connection.execute("SELECT study_id FROM studies").fetchall()]
        app_tables = stack.enter_context(contextlib.closing(AppReader(app, studies)))
        unjudged = set(changed_jobs(master.connection))
        published, store = master.is_published(), open_store(settings)
        new_bundles = NewBundles(settings.bundles) if store is None else StoredBundles(settings.bundles, store, app)
        opened, now_s = Opened(settings.home, settings.bundles), time.monotonic()
        for path in opened.left_out().keys() - ingested:
            set_aside[path] = SetAside(opened.left_out()[path], now_s, now_s, is_final=True)
        yield Ingester(
            settings,
            master,
            app_tables,
            new_bundles,
            ingested,
            unjudged,
            published,
            set_aside,
            opened,
            only_grown=published,  # else it may be a rebuild that was killed before it published: the same runs anew
        )


def ingest_all(settings: Settings) -> None:
    """Ingest and publish every bundle that exists now, then return. Raises UserError if an ingester runs."""
    with open_engine(settings.app_database_url) as app:
        upload_all(settings, app)
        with only_ingester(settings.home), open_ingester(settings, app) as ingester:
            while ingest_once(ingester):
                pass
        upload_all(settings, app)  # verdicts on jobs that have ended


def run(settings: Settings, stop: threading.Event) -> None:
    """Ingest until `stop` is set. Raises UserError if another ingester runs or a database is of another revision."""
    set_aside: dict[str, SetAside] = {}
    logged = ""
    url = settings.app_database_url
    with open_engine(url) as app, only_ingester(settings.home), uploading(settings, app):
        while not stop.is_set():
            try:
                with open_ingester(settings, app, set_aside) as ingester:
                    _log.info("ingesting %s", settings.bundles.absolute())
                    _ingest_until(stop, ingester)
            except MASTER_ERRORS as error:
                sentence = _sentence(settings.master_file, error)
                trace = None if sentence == logged else error  # once: this may last for hours
                _log.error("%s. Nothing is lost; trying again in %g s", sentence, RETRY_S, exc_info=trace)
                logged = sentence
                stop.wait(RETRY_S)


def _sentence(master: Path, error: Exception) -> str:
    """Return a sentence that names the operation and the reason; both DuckDB and the operating system name the file."""
    operation = next(iter(getattr(error, "__notes__", ())), f"opening {master.absolute()}")
    return f"{operation} failed: {str(error).splitlines()[0]}"


def _ingest_until(stop: threading.Event, ingester: Ingester) -> None:
    """Ingest between the windows of this machine, and at once when a worker asks for it before its next window."""
    home = ingester.settings.home
    with quiet.announced(home, "ingester", "runs"):
        while not stop.is_set():
            with quiet.between_windows(home, stop) as may_ingest:
                requests = quiet.asked_rounds(home)
                more = may_ingest and ingest_once(ingester, all_jobs=bool(requests))
            if may_ingest and not more:
                for request in requests:
                    request.unlink(missing_ok=True)
                quiet.wait_until_asked(home, stop, ingester.settings.ingest_every_s)


def main() -> int:
    write_for_nobody_else()
    do_without_pandas()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        settings = load_settings()
        limit_memory(settings.ingester_memory_mib)
        run(settings, stop)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
