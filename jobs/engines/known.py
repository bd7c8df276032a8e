"""What the workers of this installation have told of their engines, in the app database."""

from __future__ import annotations

import sqlalchemy as sa
from pydantic import TypeAdapter

from jobs.engines.capabilities import Capabilities
from warehouse.app_db.schema import workers
from warehouse.database import reading

_ENGINES = TypeAdapter(list[Capabilities])


def engines_to_json(engines: list[Capabilities]) -> str:
    """As a worker writes them into `workers.engines_json`."""
    return _ENGINES.dump_json(engines).decode()


def engines_from_json(text: str) -> list[Capabilities]:
    """What `engines_to_json` made."""
    return _ENGINES.validate_json(text)


def known_engines(database: sa.Engine, hardware: str | None = None) -> list[Capabilities]:
    """Of every worker that has told and has `hardware` in its hardware's name; the same of several workers once."""
    told = sa.select(workers.c.hardware, workers.c.engines_json).where(workers.c.engines_json.is_not(None))
    with reading(database).connect() as connection:
        rows = connection.execute(told.order_by(workers.c.last_seen.desc())).all()
    texts = [text for has, text in rows if hardware is None or hardware.lower() in has.lower()]
    found = {each.digest(): each for text in texts for each in _ENGINES.validate_json(text)}
    return list(found.values())
