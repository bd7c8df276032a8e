"""The exception tree: errors that a user can fix, and everything else."""

from __future__ import annotations

from datetime import date
from typing import ClassVar


class DrafthouseError(Exception):
    """Anything Drafthouse raises on purpose."""


class UserError(DrafthouseError):
    """An error that the user can fix: its text is one sentence with the remedy. Printed without a traceback.

    `is_of_host` says whose fault it is when it ends a job: an error of the worker's host puts the job back into the
    queue, and any other one fails the study.
    """

    is_of_host: ClassVar[bool] = False


class HostError(UserError):
    """Something that this host lacks and another may have: an engine, disk space, a driver, free GPU memory."""

    is_of_host = True


class UnknownNameError(UserError):
    """A job, a study or a run that does not exist."""


class SettingsError(UserError):
    """A setting in the environment, drafthouse.toml or another file of this host that cannot be used."""

    is_of_host = True


class SecretError(SettingsError):
    """A key or an authority that a study names and this host does not have: the name may be wrong."""

    is_of_host = False


class AccessError(UserError):
    """A change that this actor may not make, or a login that this visitor may not use."""


class StudyError(UserError):
    """A study that cannot be run.

    `problems` are (field path, sentence) pairs, for a form that shows each beside its field.
    """

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("\n".join(f"{field}: {sentence}" if field else sentence for field, sentence in problems))


class EngineError(DrafthouseError):
    """An engine that did not start, or died. It is recorded as a result, with an excerpt of the engine's log."""


#: The exact command that errors about a missing or older database name.
MIGRATE_COMMAND = "drafthouse migrate"
INSTALL_COMMAND = "drafthouse install"


class RevisionError(UserError):
    """A database that is older or newer than this Drafthouse; the text names the command to run."""

    is_of_host = True


class BundleError(UserError):
    """A run's folder that is incomplete, or of a format that this Drafthouse cannot read."""


class ForeignFileError(UserError):
    """A result file of another tool that cannot be imported; the text names file, line or key, and the reason."""


class QueryError(UserError):
    """A query that the warehouse cannot answer; the text includes DuckDB's message."""


class BusyError(QueryError):
    """A request for which there is no slot or no memory now: it can be sent again unchanged."""


class UnknownStudyError(QueryError, UnknownNameError):
    """A study without results in the warehouse."""


class UnknownPriceError(QueryError):
    """No price is recorded for an hour of `hardware` on `day` (None: the day is unknown too)."""

    def __init__(self, hardware: str, day: date | None) -> None:
        self.hardware, self.day = hardware, day
        super().__init__(
            f"no price is recorded for {hardware!r} on {day or 'an unknown day'}: add it to the price book with "
            "`drafthouse prices add`, or give it with --price-per-hour"
        )


class CancelledError(DrafthouseError):
    """The user cancelled the job; raised inside the worker so that everything it started is stopped."""
