"""`drafthouse worker`: this host's workers in the foreground, and the keys of worker hosts."""

from __future__ import annotations

import os
import platform
import re
import signal
import stat
import sys
import time
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Annotated

import typer

from access.local import local_actor
from cli.arguments import only_one_of
from cli.lab import ready_settings
from cli.output import print_text
from cli.verbs.operate.up import TEND_EVERY_S, become
from cli.verbs.operate.workers import drain_host
from host.settings import load_settings
from jobs.fleet import enrolment
from jobs.fleet.enrolment import Way
from lab.errors import SettingsError, UserError
from services import supervisor
from services.supervisor import stopped_by_signal
from workers.worker import ENDS, Ends

app = typer.Typer(add_completion=False)

Host = Annotated[str, typer.Argument(help="The name that `hostname` prints there.")]


@app.callback(invoke_without_command=True)
def worker(
    context: typer.Context,
    *,
    drain: Annotated[bool, typer.Option("--drain", help="Drain this host's workers.")] = False,
    once: Annotated[bool, typer.Option("--once", help="End after one study, or if none can be taken.")] = False,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Drain then: 18:30, 2026-11-27T18:30, 90m, 8h."),
    ] = None,
    enrolled: Annotated[
        Path | None, typer.Option(metavar="FILE", help="This host's keys, from `worker enroll`.")
    ] = None,
) -> None:
    """Run this host's workers in the foreground: one for each slot, or only the worker of DRAFTHOUSE_SLOT.

    TERM (systemd, Slurm, Kubernetes) drains them; Ctrl-C stops them at once and loses the current run.
    """
    if context.invoked_subcommand is not None:
        return
    only_one_of(drain=drain, once=once, until=until is not None)
    if enrolled is not None:
        os.environ.update(keys_of(enrolled))
    settings = ready_settings()
    if drain:
        drain_host(settings, platform.node())
        return
    os.environ[ENDS] = Ends(once=once, until=None if until is None else moment_of(until)).words
    if settings.slots == 1 or "slot" in settings.model_fields_set:
        become(supervisor.worker_command())
    with stopped_by_signal(), supervisor.running_workers(settings) as workers:
        logs = ", ".join(str(process.log.absolute()) for process in workers.processes)
        print_text(f"{settings.slots} workers are up; their logs are {logs}")
        sys.stdout.flush()
        signal.signal(signal.SIGTERM, lambda _number, _frame: workers.drain())
        while not workers.have_ended():
            workers.supervise()
            time.sleep(TEND_EVERY_S)


@app.command()
def enroll(
    host: Host,
    *,
    at: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name at which workers reach database and broker.")
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Certificate of their authority, on the host: demands TLS."),
    ] = None,
    to: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write them; default: HOST.env.")] = None,
) -> None:
    """Write the keys of one worker host into a file: for its own studies in database, broker and object store alone.

    Run it on the page's host. Enrolling a host again makes new keys and ends the old ones.
    """
    file = to or Path(f"{host}.env")
    settings, actor = load_settings(), local_actor()
    hidden = file.with_name(f".{file.name}-{os.getpid()}")
    try:
        with hidden.open("x") as writing:  # before the old keys end
            hidden.chmod(0o600)
            text, remarks = enrolment.enroll(settings, host, Way(at, ca), actor=actor)
            writing.write(text)
        hidden.replace(file)
    except OSError as error:
        raise UserError(f"{file} cannot be written ({error.strerror}): choose another with --to") from None
    finally:
        hidden.unlink(missing_ok=True)
    print_text(f"The keys of {host} are in {file}: move it there, and run `drafthouse worker --enrolled FILE`")
    for remark in remarks:
        print_text(remark)


@app.command()
def revoke(host: Host) -> None:
    """End the keys of a worker host at once; its studies go back to the queue."""
    for remark in enrolment.revoke(load_settings(), host, actor=local_actor()):
        print_text(remark)
    print_text(f"{host} has no keys any more")


def keys_of(file: Path) -> dict[str, str]:
    """Return the variables of an enrolled host's file. Raises SettingsError unless its owner alone can read it."""
    try:
        if mode := stat.S_IMODE(file.stat().st_mode) & 0o077:
            raise SettingsError(f"{file} can be read or changed by others (mode {mode:o}): run `chmod 600 {file}`")
        lines = [line for line in file.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} cannot be read ({type(error).__name__}): `worker enroll` writes it") from None
    if not all(re.match(r"(DRAFTHOUSE|AWS)_[A-Z_]+=", line) for line in lines):
        raise SettingsError(f"{file} is not a file of `drafthouse worker enroll`")
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def moment_of(text: str, now: datetime | None = None) -> datetime:
    """Return the moment of a time, a date with a time, or a duration from now. Raises UserError."""
    now = now or datetime.now(UTC)
    if (duration := re.fullmatch(r"(\d{1,6})([smhd])", text)) is not None:
        return now + timedelta(seconds=int(duration[1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[duration[2]])
    try:
        if re.fullmatch(r"\d?\d:\d\d", text):
            at = time_of_day.fromisoformat(text.zfill(5))
            local = datetime.combine(now.astimezone().date(), at).astimezone()
            return local if local > now else local + timedelta(days=1)
        moment = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise UserError(f"{text!r} is no time: write 18:30, 2026-11-27T18:30, 90m or 8h") from None
    if moment <= now:
        raise UserError(f"{text} is over")
    return moment
