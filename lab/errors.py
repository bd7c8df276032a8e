"""The exception tree: what a user can mend, and everything else."""

from __future__ import annotations

from datetime import date


class DrafthouseError(Exception):
    """Anything Drafthouse raises on purpose."""


class UserError(DrafthouseError):
    """Something the user can mend: its text is one sentence that says how. Printed without a traceback."""


class SettingsError(UserError):
    """A setting in the environment or drafthouse.toml that cannot be used."""


class StudyError(UserError):
    """A study that cannot be run.

    `problems` are (field path, sentence) pairs, for a form that shows each beside its field.
    """

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("\n".join(f"{field}: {sentence}" if field else sentence for field, sentence in problems))


class EngineError(DrafthouseError):
    """An engine that did not start, or died. A result of the study, kept with the telling lines of its log."""


class RevisionError(UserError):
    """A database that is older or newer than this Drafthouse; the text names the command to run."""


class BundleError(UserError):
    """A run's folder that is not whole, or of a format this Drafthouse does not read."""


class ForeignFileError(UserError):
    """A result file of another tool that cannot be imported; the text names file, line or key, and the reason."""


class QueryError(UserError):
    """A question to the warehouse that it cannot answer; DuckDB's own words are in the text."""


class UnknownPriceError(QueryError):
    """Nobody knows what an hour of `hardware` cost on `day` (None: the day is unknown too)."""

    def __init__(self, hardware: str, day: date | None) -> None:
        self.hardware, self.day = hardware, day
        super().__init__(
            f"nobody knows the price of {hardware!r} on {day or 'an unknown day'}: add it to the price book with "
            "`drafthouse prices add`, or say it with --price-per-hour"
        )


class CancelledError(DrafthouseError):
    """The user cancelled the job; raised inside the worker so that everything it started is stopped."""
