"""The broker's address, and the only message that is sent over it: "there may be work"."""

from __future__ import annotations

import contextlib

from host.settings import Settings
from lab.errors import UserError

#: The only Celery task. It takes no arguments: everything about a job is in the job table.
WAKE_TASK = "workers.wake"
#: An older wake-up is useless: workers also poll the job table.
WAKE_EXPIRES_S = 30
_CONNECT_TIMEOUT_S = 1.0


def broker_url(settings: Settings) -> str:
    """Return the address of the Valkey (or Redis) that wakes workers. Raises UserError if the address is unknown."""
    if (url := settings.own_broker_url) is not None:
        return url
    try:
        return settings.broker_file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise UserError(
            f"{settings.home} has no broker: start one with `drafthouse up`, or set DRAFTHOUSE_BROKER_URL"
        ) from None


def wake(settings: Settings) -> None:
    """Wake a worker. A missing broker is not an error: workers find the job at their next poll."""
    import celery  # noqa: PLC0415 - takes half a second to import, which only a submission pays
    from kombu.exceptions import OperationalError  # noqa: PLC0415

    options = {
        "socket_connect_timeout": _CONNECT_TIMEOUT_S,
        "socket_timeout": _CONNECT_TIMEOUT_S,
        "max_retries": 0,  # kombu would try for six seconds, and the submitter of a study would wait
    }
    with contextlib.suppress(UserError, OperationalError):
        url = broker_url(settings)
        with celery.Celery(broker=url, broker_transport_options=options, set_as_current=False) as app:
            app.send_task(WAKE_TASK, expires=WAKE_EXPIRES_S, retry=False, ignore_result=True)
