"""The figure of a tuning, drawn from its link's parameters alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lab.metrics.number_format import times
from lab.tuning.report import Measured, Report
from webapp.charts.deploy import tuned_domain, tuned_panel
from webapp.charts.panels import Figure
from webapp.charts.theme import Drafting, Mode, arm_styles
from webapp.pages.deploy import tuning_data as data
from webapp.shared import published_data, url_params
from webapp.shared.published_data import cached_figures


@cached_figures
def figures(parameters: Mapping[str, Sequence[str]], mode: Mode) -> list[Figure]:
    """Draw the speed-up of every setting at every load; no figure before the first results. Raises KeyError for
    parameters that name no study, ValueError for a study that is not a tuning.
    """
    job_id = url_params.job_id_of(parameters[url_params.JOB.key][0])
    report = data.tuned(job_id)
    return [] if report is None else [speedups(report, published_data.arms(job_id), mode)]


def speedups(report: Report, arms: Mapping[str, Drafting], mode: Mode) -> Figure:
    """Draw one panel per load; its title names the chosen setting. `arms`: how those of the study draft."""
    rows = data.speedups(report)
    drafts = [draft for draft in dict.fromkeys(rows["draft"]) if draft]
    drafting = {draft: (how[0], None) for draft in drafts for arm, how in arms.items() if arm.startswith(draft)}
    styles, domain = arm_styles(drafts, None, mode, drafting), tuned_domain(rows)
    panels = tuple(
        (_title(best), tuned_panel(rows[rows["load"] == best.load], domain, styles, mode)) for best in report.best
    )
    note = (
        "over no speculation = 1×, logarithmic; filled: measured, with its 95 % interval; hollow: expected; "
        "band: 90 % of what is expected; ring: chosen"
    )
    return Figure("speedups", "Speed-up by drafted tokens, load by load", note, styles, panels, rows, least_width=300)


def _title(best: Measured) -> str:
    """Return a panel's title: `4 at once: draft k=3, 1.48×`."""
    at = f"{best.load} at once"
    return f"{at}: no speculation" if best.k == 0 else f"{at}: {best.arm}, {times(best.ratio)}"
