"""What to deploy for a target, from all of its studies: for each load the newest study that decided it."""

from __future__ import annotations

import re

import pandas as pd

from lab.advice.answer import Answer, Choice
from lab.metrics.number_format import ratio
from webapp.shared import published_data
from webapp.shared.published_data import cached_by_publication
from webapp.shared.tables import DAY, Column, columns
from webapp.shared.verdicts import answers

#: Studies that are read, the newest first.
_MOST_STUDIES = 20
OPEN = "? inconclusive"
#: How many requests a load without a name of its own has: a longer run is no other load.
_REQUESTS = re.compile(r"^(c\d+)-n\d+")
_ORDER = ("workload", "concurrency", "deploy", "change", "study", "open", "measured", "load", "hardware", "engine")
COLUMNS = columns(
    *("workload", "concurrency", "hardware"),
    pinned="workload",
    load=Column("Load", width=75),
    deploy=Column("Deploy", help="Arms that beat the baseline, and that are not certainly behind another", width=230),
    change=Column("Throughput over the baseline", help="With its 95 % interval, by the usual reading", width=230),
    engine=Column("Engine", width=110),
    study=Column("Study", width=120),
    measured=Column("Measured (UTC)", DAY, width=115),
    open=Column("Open", width=70, link_text="Results"),
)


@cached_by_publication()
def deployments(target: str) -> pd.DataFrame:
    """Return a row per hardware, workload and load that was compared for the target, as COLUMNS names them; and the
    job and the arms to enable.
    """
    studies = published_data.studies_with_results()
    ours = studies[(studies["target"] == target) & studies["is_comparison"] & ~studies["is_hidden"]].head(_MOST_STUDIES)
    rows: dict[tuple[str, str, str], dict[str, object]] = {}
    for study in ours.to_dict("records"):
        answer = answers.answer_of(study["job_id"])
        runs = published_data.results(study["job_id"])
        about = {
            "hardware": ", ".join(sorted(runs["hardware"].dropna().unique())),
            "engine": ", ".join(sorted((runs["engine"] + " " + runs["engine_version"].fillna("")).dropna().unique())),
            "study": study["study_name"],
            "measured": runs["started_at"].max(),
            "open": f"results?job={study['job_id']}",
            "job_id": study["job_id"],
        }
        for choice in () if answer is None else answer.choices:
            key = (str(about["hardware"]), choice.workload, _REQUESTS.sub(r"\1", choice.load))
            if key not in rows or (rows[key]["deploy"] == OPEN and choice.action != "inconclusive"):
                rows[key] = _row(choice, answer) | about
    return pd.DataFrame(list(rows.values()), columns=[*_ORDER, "job_id", "arms"])


def _row(choice: Choice, answer: Answer | None) -> dict[str, object]:
    deploy, change = OPEN, ""
    if choice.best:
        deploy = "▲ " + " or ".join(choice.arms)
        gains = (pair.ratio for pair in choice.best)
        change = ", ".join(ratio(gain.value, gain.low, gain.high) for gain in gains if gain is not None)
    elif choice.action == "leave off":
        deploy = "no speculation" if answer is None or answer.of_speculation else answer.baseline
    return {
        "workload": choice.workload,
        "load": choice.load,
        "concurrency": choice.concurrency,
        "deploy": deploy,
        "change": change,
        "arms": choice.arms,
    }
