"""A process that claims every job there is and finishes it, printing the id of each."""

from __future__ import annotations

#: To be run with `-c` and the name of the worker.
GREEDY = """
import sys
from warehouse.app_db.engine import app_engine
from warehouse.settings import load_settings
from jobs.leases import claim, finish, heartbeat
database, me = app_engine(load_settings().app_database_url), sys.argv[1]
while job := claim(database, me, 30.0):
    heartbeat(database, job.job_id, me, 30.0, None)
    finish(database, job.job_id, me, "done")
    print(job.job_id, flush=True)
"""
