"""From an arm to an engine that answers requests."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.errors import EngineError
from lab.study import Arm, Study
from warehouse.settings import Settings
from workers.engine_logs import engine_log
from workers.engines import process, vllm
from workers.engines.environment import fill_in, profile_environment, whole_environment
from workers.engines.process import EngineProcess
from workers.engines.profiles import Profile, installed_profile
from workers.engines.ready import wait_until_ready
from workers.engines.telling import telling_lines
from workers.load.client import Endpoint

#: Between our choice of a free port and the engine's listening another program can take it.
_PORT_ATTEMPTS = 3
_PORT_TAKEN = ("address already in use", "errno 98", "errno 48")

#: What each kind of engine is given behind its command, and how its log is read.
_ARGUMENTS: dict[str, Callable[[Settings, Study, Arm, int], tuple[str, ...]]] = {"vllm": vllm.arguments}
_EFFECTIVE_CONFIG: dict[str, Callable[[Path], dict[str, str]]] = {"vllm": vllm.effective_config}


@dataclass(frozen=True)
class Command:
    """How an engine is started, and where it can be spoken to then."""

    words: tuple[str, ...]
    profile: Profile
    own_environment: dict[str, str]
    endpoint: Endpoint
    log: Path


@dataclass(frozen=True)
class RunningEngine:
    """An engine that has answered a request."""

    process: EngineProcess
    command: Command
    version: str | None
    effective_config: dict[str, str]
    start_s: float  # from exec to the first answered request

    def why_dead(self) -> str | None:
        """None while it runs."""
        return died(self.process, self.command.log)


def engine_command(settings: Settings, study: Study, arm: Arm, job_id: str) -> Command:
    """The command of this arm with a port that is free now. Raises UserError when the engine is not there."""
    profile, port = installed_profile(settings, arm.engine), _free_port()
    words = tuple(fill_in(settings, word) for word in profile.command)
    return Command(
        words=words + _ARGUMENTS[profile.kind](settings, study, arm, port),
        profile=profile,
        own_environment=profile_environment(settings, profile, study, arm),
        endpoint=Endpoint(
            base_url=f"http://127.0.0.1:{port}",
            model=study.target,
            kind=study.endpoint,
            per_request_spec_metrics=arm.speculation is not None,
        ),
        log=engine_log(settings, job_id),
    )


async def start_engine(
    settings: Settings, study: Study, arm: Arm, job_id: str, started: Callable[[Command, EngineProcess], None]
) -> RunningEngine:
    """Start the arm's engine and wait until it has answered a request.

    `started` is told of every process at once: whoever cancels this must stop the last of them. Raises EngineError with
    the telling lines of the log when the engine ends or does not become ready.
    """
    for attempt in range(1, _PORT_ATTEMPTS + 1):
        command = engine_command(settings, study, arm, job_id)
        environment = whole_environment(settings, command.profile, command.own_environment)
        began_s = time.monotonic()
        running = process.start(command.words, environment, command.log, settings.home / "engines")
        started(command, running)
        try:
            async with asyncio.timeout(settings.engine_start_timeout_s):
                version = await wait_until_ready(command.endpoint, lambda: died(running, command.log))  # noqa: B023
        except (EngineError, TimeoutError) as error:
            running.stop(grace_s=0.5)
            if attempt == _PORT_ATTEMPTS or not _port_was_taken(command.log):
                raise _did_not_start(settings, command, error) from None
            continue
        return RunningEngine(
            running, command, version, _EFFECTIVE_CONFIG[command.profile.kind](command.log), time.monotonic() - began_s
        )
    raise AssertionError  # the last attempt returned or raised


def died(running: EngineProcess, log: Path) -> str | None:
    """Why the engine ended, in the words of its log; None while it runs."""
    status = running.exit_status
    if status is None:
        return None
    how = f"was killed by signal {status - 128}" if status > 128 else f"ended with exit status {status}"
    return f"the engine {how}:\n{telling_lines(log)}"


def _did_not_start(settings: Settings, command: Command, error: Exception) -> EngineError:
    if isinstance(error, EngineError):
        return error
    waited_s = settings.engine_start_timeout_s
    return EngineError(f"the engine was not ready within {waited_s:g} s; its log ends:\n{telling_lines(command.log)}")


def _port_was_taken(log: Path) -> bool:
    text = log.read_text(encoding="utf-8", errors="replace").lower()
    return any(words in text for words in _PORT_TAKEN)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
