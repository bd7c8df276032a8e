"""The broker's address, and the one message that ever goes over it: "there may be work"."""

from __future__ import annotations

from lab.errors import UserError
from warehouse.settings import Settings

#: The only task: it takes no arguments, because the job table knows everything.
WAKE_TASK = "workers.wake"
#: A wake-up that nobody took by then is worth nothing any more; the workers look by themselves.
WAKE_EXPIRES_S = 30
_CONNECT_TIMEOUT_S = 1.0


def broker_url(settings: Settings) -> str:
    """The address of the Valkey (or Redis) that wakes workers. Raises UserError when none is known."""
    if settings.broker_url is not None:
        return settings.broker_url
    try:
        return settings.broker_file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        raise UserError(
            f"no broker is known for {settings.home}: start one with `drafthouse up`, or set DRAFTHOUSE_BROKER_URL"
        ) from None


def wake(settings: Settings) -> str | None:
    """Wake a worker. Returns None, or why that is not possible now; no error: the workers look by themselves."""
    import celery  # noqa: PLC0415 - half a second that only those who submit shall wait for
    from kombu.exceptions import OperationalError  # noqa: PLC0415

    options = {"socket_connect_timeout": _CONNECT_TIMEOUT_S, "socket_timeout": _CONNECT_TIMEOUT_S}
    try:
        url = broker_url(settings)
        with celery.Celery(broker=url, broker_transport_options=options, set_as_current=False) as app:
            app.send_task(WAKE_TASK, expires=WAKE_EXPIRES_S, retry=False, ignore_result=True)
    except (UserError, OperationalError) as away:
        return str(away)
    return None
