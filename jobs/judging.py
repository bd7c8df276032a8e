"""A study is judged again, with the history and the analysis of today, because somebody asks for it."""

from __future__ import annotations

import sqlalchemy as sa

from host.settings import Settings
from lab import roles
from lab.errors import QueryError
from lab.roles import Actor, Change
from warehouse.app_db import audit
from warehouse.bundles.judgements import write_judgement
from warehouse.queries.comparing.judging import judge_again as judge
from warehouse.queries.comparing.paired_runs import jobs_of
from warehouse.queries.connect import open_warehouse


def judge_again(settings: Settings, database: sa.Engine, study: str, *, actor: Actor) -> str:
    """Store a second, dated judgement of a study beside the first, and return its id. The ingester publishes it.

    Raises QueryError for an unknown study, several jobs, or one with nothing to compare; AccessError; OSError.
    """
    roles.require(actor, Change.JUDGE, is_new=True)
    with open_warehouse(settings.warehouse_file) as con:
        jobs = jobs_of(con, study)
        if len(jobs) > 1:
            raise QueryError(f"{study!r} has several jobs, and each is judged by itself: name one of {', '.join(jobs)}")
        judgement = judge(con, jobs[0])
    with database.begin() as connection:
        audit.record(connection, actor, Change.JUDGE, judgement.judgement_id)
        write_judgement(settings.bundles, judgement)
    return judgement.judgement_id
