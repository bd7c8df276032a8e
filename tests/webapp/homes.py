"""A Drafthouse home for tests of the pages: migrated databases, models and an engine as the submit check wants them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

from host.settings import Settings
from jobs import queue
from jobs.engines.capabilities import Capabilities
from jobs.fleet import leases, worker_registry
from jobs.table import Progress, State
from lab.study import Study
from tests.actors import ADMIN
from tests.migrated import copy_migrated
from warehouse.app_db.engine import open_engine
from warehouse.app_db.schema import jobs

#: The check at submission asks whether the engine's program is there; nothing here ever starts it.
ENGINES = '[vllm]\nkind = "vllm"\ncommand = ["true"]\n'
PROMPTS = 60
WORKER = "test-worker"


def make_home(folder: Path) -> Settings:
    """Everything that a submitted study of the reference models is checked against. A question may take minutes."""
    settings = Settings(home=folder / "home", engines_file=folder / "engines.toml", sql_timeout_s=600.0)
    copy_migrated(settings.home)
    settings.engines_file.write_text(ENGINES, encoding="utf-8")
    for model in ("target", "draft", "eagle3"):
        (settings.models_dir / model).mkdir(parents=True)
        (settings.models_dir / model / "config.json").write_text("{}", encoding="utf-8")
    prompts = settings.models_dir / "prompts"
    prompts.mkdir()
    for category in ("code", "prose", "repeat"):
        rows = [{"prompt": f"{category} {place}", "category": category, "source": "test"} for place in range(PROMPTS)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (prompts / f"{category}.jsonl").write_text(text, encoding="utf-8")
    return settings


def environment(settings: Settings) -> dict[str, str]:
    names = ("home", "engines_file", "sql_timeout_s")
    return {f"DRAFTHOUSE_{name.upper()}": str(getattr(settings, name)) for name in names}


def progress(**changes: object) -> Progress:
    """A job in the middle of a run."""
    values: dict[str, object] = {
        "phase": "measuring",
        "arm": "draft",
        "workload": "reference/code/16",
        "load": "c4-n8",
        "runs_total": 4,
        "runs_done": 1,
        "launches_total": 2,
        "launches_done": 0,
        "requests_done": 4,
        "requests_total": 8,
        "output_tok_per_s": 112.345678,
        "ttft_ms": 41.7,
        "remaining_s": 200.0,
        "at": "2026-11-21T04:12:33+00:00",
    }
    return Progress.model_validate(values | changes)


def claimed_job(settings: Settings, study: Study) -> str:
    """Submitted before all others, and taken by a worker."""
    job_id = queue.submit(settings, study, priority=10_000, actor=ADMIN)
    with open_engine(settings.app_database_url) as engine:
        claimed = leases.claim(engine, WORKER, 3600)
    assert claimed is not None
    assert claimed.job_id == job_id
    return job_id


def running_job(settings: Settings, study: Study, **changes: object) -> str:
    """A job that a worker has claimed and reported on."""
    job_id = claimed_job(settings, study)
    with open_engine(settings.app_database_url) as engine:
        leases.heartbeat(engine, job_id, WORKER, 3600, progress(**changes))
    return job_id


def finish(settings: Settings, job_id: str, state: State, error: str | None = None) -> None:
    with open_engine(settings.app_database_url) as engine:
        leases.finish(engine, job_id, WORKER, state, error=error)


def tell_worker(
    settings: Settings,
    worker: str = WORKER,
    *,
    hardware: str = "a processor",
    gpus: int = 0,
    methods: tuple[str, ...] = ("draft_model", "ngram"),
) -> None:
    """A worker that is there and has told of its one engine."""
    with open_engine(settings.app_database_url) as engine:
        worker_registry.register_worker(
            engine, worker, host="here", hardware=hardware, gpus=gpus, is_dead=lambda _worker: False
        )
        vllm = Capabilities(engine="vllm", kind="vllm", version="0.32.0", methods=methods, flags=None, gpus=())
        worker_registry.store_engines(engine, worker, [vllm])


def add_ended_jobs(settings: Settings, study: Study, count: int) -> list[str]:
    """So many jobs that are done, each submitted a second after the one before and after all others; their ids."""
    last = queue.submit(settings, study, actor=ADMIN)
    with open_engine(settings.app_database_url) as engine, engine.begin() as connection:
        row = dict(connection.execute(sa.select(jobs).where(jobs.c.job_id == last)).mappings().one())
        row |= {"state": "done", "finished_at": row["submitted_at"]}
        moments = [row["submitted_at"] + timedelta(seconds=number) for number in range(1, count)]
        more = [row | {"job_id": f"{last}-{at:%H%M%S}", "submitted_at": at, "finished_at": at} for at in moments]
        connection.execute(
            sa.update(jobs).where(jobs.c.job_id == last).values(state="done", finished_at=row["finished_at"])
        )
        connection.execute(sa.insert(jobs), more)
    return [last, *(ended_job["job_id"] for ended_job in more)]


def failed_job(settings: Settings, study: Study, error: str) -> str:
    job_id = running_job(settings, study)
    finish(settings, job_id, "failed", error)
    return job_id
