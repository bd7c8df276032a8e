"""Starts an arm's engine and waits until it answers requests, or connects to a running server; explains failures."""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from host.ports import free_port
from host.settings import Settings, secret
from jobs.engines.addresses import check_host
from jobs.engines.capabilities import capabilities, installed_version
from jobs.engines.checks import KEY_IS_SHOWN
from jobs.engines.kind import Kind
from jobs.engines.kinds import KINDS
from jobs.engines.models import model_path
from jobs.engines.profiles import (
    Profile,
    command_argv,
    installed_profile,
    profile_environment,
    whole_environment,
    without_secrets,
)
from jobs.policy import launch_problems
from jobs.submission import Context
from lab.errors import EngineError, SecretError, StudyError, UserError
from lab.storable import storable
from lab.study import Arm, Study
from workers.engine_runtime import process
from workers.engine_runtime.engine_key import answers_anybody, key_folder, new_key, with_key
from workers.engine_runtime.engine_user import engine_user, environment_for, let_through, user_caches
from workers.engine_runtime.process import EngineProcess, NoProcess
from workers.engine_runtime.readiness import Ready, reach, wait_until_ready
from workers.engine_runtime.start_failure import explained
from workers.load.client import Endpoint
from workers.slots import refuse_outside_slot, slot_environment, taken_slot

logger = logging.getLogger(__name__)
#: Another program can take the free port that we picked before the engine listens on it.
_PORT_ATTEMPTS = 3
_MOST_CHARS_OF_SETTING = 20_000
_PORT_TAKEN = ("address already in use", "errno 98", "errno 48")

Process = EngineProcess | NoProcess


@dataclass(frozen=True)
class Command:
    """The command that starts an engine, and its address. Without `argv` the server is already running.
    `secret_environment` holds the key, and is neither stored nor shown.
    """

    argv: tuple[str, ...]
    profile: Profile
    own_environment: dict[str, str]
    endpoint: Endpoint
    log: Path
    secret_environment: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def kind(self) -> Kind:
        return KINDS[self.profile.kind]

    @property
    def shown_environment(self) -> dict[str, str]:
        """Return the part of the environment that may be stored and shown."""
        return without_secrets(self.own_environment)


@dataclass(frozen=True)
class RunningEngine:
    """An engine that has answered a request."""

    process: Process
    command: Command
    version: str | None
    effective_config: dict[str, str]
    start_s: float | None  # from exec to the first answered request; None for a running server
    taken_over_from: str | None = None  # the launch of an earlier study that started it; None: this one

    def why_dead(self) -> str | None:
        """Return why the engine has ended, or None while it runs."""
        return died(self.process, self.command.log)


def engine_command(settings: Settings, study: Study, arm: Arm, log: Path, *, keyed: bool = True) -> Command:
    """Build the arm's command with a port that is free now. Without `keyed` everybody on the host may use the engine.

    Raises UserError if the engine is not installed or the arm does not fit the slot, StudyError for what the policy
    does not allow.
    """
    if problems := launch_problems(Context(settings).rules, study, arm):
        raise StudyError(problems)
    profile = installed_profile(settings, arm.engine)
    kind = KINDS[profile.kind]
    if kind.arguments is None:
        return Command(
            (),
            profile,
            {},
            endpoint_of(settings.home, study, arm, allow_metadata=settings.allow_metadata_addresses),
            log,
        )
    slot = taken_slot()
    own = slot_environment(slot) | profile_environment(settings, profile, study, arm)
    refuse_outside_slot(slot, study, arm, whole_environment(settings.engines_dir, profile, own))
    takes = capabilities(settings, arm.engine).takes
    port, argv, key = free_port(), command_argv(settings, profile, own), new_key() if keyed else None
    return Command(
        argv=argv + kind.arguments(settings.models_dir, study, arm, port, log.with_suffix(""), takes=takes),
        profile=profile,
        own_environment=own,
        endpoint=Endpoint(
            base_url=f"http://127.0.0.1:{port}",
            model=study.target,
            kind=study.endpoint,
            per_request_spec_metrics=arm.speculation is not None,
            token_ids=kind.token_ids,
            further=kind.further if arm.speculation is not None else {},
            api_key=key,
        ),
        log=log,
        secret_environment={} if key is None else with_key(settings.home, key, own),
    )


async def start_engine(
    settings: Settings,
    study: Study,
    arm: Arm,
    log: Path,
    started: Callable[[Command, Process], None],
    *,
    keyed: bool = True,
) -> RunningEngine:
    """Start the arm's engine with its output in `log`, and wait until it has answered a request.

    `started` is called with every process at once: a caller that cancels this must stop the last one. Raises
    EngineError with an excerpt of the log if the engine ends or does not become ready.
    """
    await asyncio.to_thread(capabilities, settings, arm.engine)  # probing a new engine takes 10 s, once
    for attempt in range(1, _PORT_ATTEMPTS + 1):
        command = engine_command(settings, study, arm, log, keyed=keyed)
        if not command.kind.is_started:
            return await _connect(command, started, settings.engine_start_timeout_s)
        user = engine_user(settings)
        caches = user_caches(user, settings.home)
        environment = whole_environment(settings.engines_dir, command.profile, command.own_environment, caches)
        environment |= command.secret_environment
        if user is not None:
            environment = environment_for(user, settings.home, environment)
            let_through(user, settings.home, settings.models_dir, log.with_suffix(""), key_folder(settings.home))
        began_s = time.monotonic()
        running = process.start(command.argv, environment, command.log, settings.home / "engines", user=user)
        started(command, running)
        try:
            async with asyncio.timeout(settings.engine_start_timeout_s):
                ready = await wait_until_ready(
                    command.endpoint,
                    command.kind,
                    lambda: died(running, command.log),  # noqa: B023 - awaited in this iteration
                )
        except (EngineError, TimeoutError) as error:
            running.stop(grace_s=0.5)
            logged = command.log.read_text(encoding="utf-8", errors="replace").lower()
            if attempt < _PORT_ATTEMPTS and any(text in logged for text in _PORT_TAKEN):
                continue
            if isinstance(error, EngineError):
                raise
            late = f"the engine was not ready within {settings.engine_start_timeout_s:g} s"
            raise EngineError(explained(late, command.log)) from None
        start_s = time.monotonic() - began_s
        target = model_path(settings.models_dir, study.target)
        if (why := command.kind.other_model(target, arm, command.kind.effective_config(command.log))) is not None:
            running.stop(grace_s=0.5)
            raise EngineError(why)
        return await _running(settings, command, running, ready, start_s)
    raise AssertionError  # the last attempt returned or raised


async def _running(
    settings: Settings, command: Command, running: Process, ready: Ready, start_s: float
) -> RunningEngine:
    if command.secret_environment and await answers_anybody(ready.endpoint):
        logger.warning("the engine %s needs no key: every user of this host can reach it", command.profile.kind)
    version = ready.version or await asyncio.to_thread(installed_version, settings, command.profile)
    logged = command.kind.effective_config(command.log)
    effective_config = {storable(name): storable(value, _MOST_CHARS_OF_SETTING) for name, value in logged.items()}
    return RunningEngine(running, replace(command, endpoint=ready.endpoint), version, effective_config, start_s)


async def _connect(command: Command, started: Callable[[Command, Process], None], timeout_s: float) -> RunningEngine:
    """Connect to a server that Drafthouse did not start, whose log it cannot read."""
    command.log.parent.mkdir(parents=True, exist_ok=True)
    command.log.write_text(f"{command.endpoint.base_url} was not started by Drafthouse\n", encoding="utf-8")
    nothing = NoProcess()
    started(command, nothing)
    ready = await reach(command.endpoint, command.kind, timeout_s)
    return RunningEngine(nothing, replace(command, endpoint=ready.endpoint), ready.version, {}, None)


def died(running: Process, log: Path) -> str | None:
    """Return why the engine ended, its cause first; None while it runs."""
    status = running.exit_status
    if status is None:
        return None
    how = f"was killed by signal {status - 128}" if status > 128 else f"ended with exit status {status}"
    return explained(f"the engine {how}", log, status=status)


def endpoint_of(home: Path, study: Study, arm: Arm, *, allow_metadata: bool) -> Endpoint:
    """Describe the arm's running server. Raises UserError if it has none, if its address is refused, or if the key or
    the authorities are missing. The key is read on the worker right before use and never stored.
    """
    if arm.server is None:
        raise UserError(f"arm {arm.name!r} measures a running server: set server.base_url")
    if arm.server.shows_key:
        raise UserError(KEY_IS_SHOWN)
    if not allow_metadata:
        check_host(arm.server.base_url)
        if arm.server.proxy is not None:
            check_host(arm.server.proxy)
    return Endpoint(
        base_url=arm.server.base_url.rstrip("/"),
        model=arm.server.served_model or study.target,
        kind=study.endpoint,
        per_request_spec_metrics=arm.speculation is not None,
        foreign=True,
        checked=not allow_metadata,
        api_path=arm.server.api_path,
        ca_file=None if arm.server.ca_file is None else _authorities(home, arm.server.ca_file),
        proxy=arm.server.proxy,
        api_key_header=arm.server.api_key_header,
        api_key=None if arm.server.api_key is None else secret(home, arm.server.api_key, arm.server.base_url),
    )


def _authorities(home: Path, name: str) -> Path:
    """Return the file of certificate authorities that a study names. Raises SecretError if it cannot be used."""
    file = (home / "authorities" / name).absolute()
    try:
        ssl.create_default_context(cafile=file)
    except OSError as error:  # ssl.SSLError among them
        why = "it has no certificate as PEM" if isinstance(error, ssl.SSLError) else error.strerror
        raise SecretError(
            f"the certificate authority {name!r} cannot be read: {why}: put its certificate into {file}"
        ) from None
    return file
