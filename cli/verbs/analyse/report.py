"""`drafthouse report`: a study's answer as Markdown for a pull request or a chat, with a picture beside it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from cli.arguments import PricePerHour, StudyId
from cli.lab import Lab, the_lab
from cli.output import print_literally
from cli.results import results_of
from cli.verbs.analyse.compare import Baseline, Metric, Strict, refuse_empty_baseline
from lab.errors import UserError
from warehouse.queries.comparing.comparisons import compare_study
from webapp.charts.theme import Drafting, drafting_in
from webapp.pages.compare import report as compare_report

To = Annotated[
    Path | None,
    typer.Option(help="A .md file, with the picture as PNG beside it."),
]


def report(
    study: StudyId,
    *,
    metric: Metric = "output_tok_per_s",
    baseline: Baseline = None,
    price_per_hour: PricePerHour = None,
    strict: Strict = False,
    to: To = None,
) -> None:
    """Report a study's answer, verdicts and a picture in Markdown, for a pull request or a chat."""
    here = the_lab()
    if to is not None and to.suffix != ".md":
        raise UserError(f"--to {to} does not end in .md: the report is Markdown, with a PNG beside it")
    file = here.warehouse_file
    with results_of(study, file) as con:
        comparison = compare_study(
            con, study, metric, baseline=baseline, price_usd_per_hour=price_per_hour, strict=strict
        )
        refuse_empty_baseline(comparison)
        made = compare_report.Made(
            _arms(here, comparison.jobs[-1]),
            here.public_url,
            datetime.fromtimestamp(file.stat().st_mtime, UTC),
            here.follow_up_seconds,
        )
        if to is None:
            print_literally(compare_report.markdown(con, comparison, made), end="")
            return
        drawn = compare_report.picture(con, comparison, made)
        picture = to.with_suffix(".png")
        text = compare_report.markdown(con, comparison, made, None if drawn is None else picture.name)
    _write(to, text.encode())
    if drawn is not None:
        _write(picture, drawn)
    print_literally(f"{to}" if drawn is None else f"{to} and {picture}")


def _arms(here: Lab, job_id: str) -> dict[str, Drafting]:
    """Return how the arms draft, in the study's order, for the pages' colours; empty for a job not in the queue."""
    try:
        return drafting_in(here.job(job_id).study)
    except UserError:
        return {}


def _write(file: Path, content: bytes) -> None:
    try:
        file.write_bytes(content)
    except OSError as error:
        raise UserError(f"{file} cannot be written: {error.strerror}") from None
