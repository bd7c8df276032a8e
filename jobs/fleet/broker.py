"""What is sent over the broker: "there may be work" to the hosts that can do it, and "look at your row" to workers.

Neither says more. Everything about a job and a worker is in the tables, so a lost message costs the time until the next
poll, and whoever reaches the broker can make workers look, but not tell them anything.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from host.settings import Settings
from lab.errors import UserError

#: The only Celery task, and our only command of its remote control. The command's argument names the workers.
WAKE_TASK, LOOK_COMMAND = "workers.wake", "look"
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


def queue_of(hardware: str, engines: Collection[str]) -> str:
    """Return the queue of the hosts with this hardware and these engines: `vllm+sglang@NVIDIA-H200`."""
    return "@".join(re.sub(r"[^\w.+-]+", "-", text) for text in ("+".join(sorted(engines)), hardware))


def wake(settings: Settings, queues: Collection[str]) -> None:
    """Wake a worker of each of these queues."""

    def send(app: Any) -> None:
        for queue in queues:
            app.send_task(WAKE_TASK, queue=queue, retry=False, ignore_result=True)

    if queues:
        _send(settings, send)


def look(settings: Settings, workers: Collection[str]) -> None:
    """Make these workers look at their rows at once."""
    _send(settings, lambda app: app.control.broadcast(LOOK_COMMAND, arguments={"workers": list(workers)}))


def _send(settings: Settings, send: Callable[[Any], object]) -> None:
    """Send over the broker. A missing one is not an error: workers also poll."""
    from kombu.exceptions import OperationalError  # noqa: PLC0415 - takes half a second to import with Celery

    with contextlib.suppress(UserError, OperationalError), _app(broker_url(settings)) as app:
        send(app)


@contextlib.contextmanager
def _app(url: str) -> Iterator[Any]:
    import celery  # noqa: PLC0415 - as above: only a submission pays for it

    options = {
        "socket_connect_timeout": _CONNECT_TIMEOUT_S,
        "socket_timeout": _CONNECT_TIMEOUT_S,
        "max_retries": 0,  # kombu would try for six seconds, and the submitter of a study would wait
    }
    with celery.Celery(broker=url, broker_transport_options=options, set_as_current=False) as app:
        yield app
