"""Links between pages, and every URL parameter: its name in a link and its labels (widgets: `shared.url_widgets`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from lab.errors import UserError

#: Parameters of other widgets: a number, and toggles.
DRAFT_COST, ALL_OUTPUTS, ANY_WORKLOAD, HIDDEN = "draft_cost", "all_outputs", "any_workload", "hidden"
#: No widget: the id of a saved query.
QUERY = "query"
#: No widget: the id of a dashboard.
DASHBOARD = "dashboard"
#: A dashboard without anything around it.
FULL = "full"
#: No widget: the job before which the listed ones were submitted.
BEFORE = "before"
#: No widget: the id of the draft on Submit.
EDITS = "edits"
SEPARATOR = " · "
#: One folder per page. It must not lie beside the main script: Streamlit would take it for its older kind of pages.
_PAGES = Path(__file__).parents[1] / "pages"


@dataclass(frozen=True)
class Param:
    """A parameter: its name in the URL, the widget's label, and the noun for one of its values.

    `is_of_study`: its values depend on the study, so it does not follow the reader to another one.
    """

    key: str
    label: str
    noun: str
    is_of_study: bool = False


@dataclass(frozen=True)
class View:
    """A page and the parameters of its link. `page` is its path in the URL."""

    page: str
    parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def link(self) -> str:
        """Return the link relative to the app: `results?job=...`."""
        query = urlencode(self.parameters, doseq=True)
        return f"{self.page}?{query}" if query else self.page


JOB = Param("job", "Study", "study")
CATEGORY = Param("category", "Category", "category", is_of_study=True)
RUN = Param("run", "Run", "run", is_of_study=True)
METRIC = Param("metric", "Metric", "metric")
SOURCE = Param("source", "Source", "source")
SERIES = Param("series", "Series", "series")
BASELINE = Param("baseline", "Baseline", "arm", is_of_study=True)
#: A list (`choose_many`).
CANDIDATES = Param("candidate", "Candidates", "arm", is_of_study=True)
#: Other studies beside the page's own, and runs of them all (no widget): lists.
WITH = Param("with", "With other studies", "study", is_of_study=True)
RUNS = Param("runs", "Chosen runs", "run", is_of_study=True)
HEAT_ROWS = Param("heat_rows", "Rows of the heat map", "kind of rows")
READING = Param("reading", "Verdicts", "reading of the verdicts")
JUDGEMENT = Param("judged", "Judged", "judgement", is_of_study=True)
AT_WORKLOAD = Param("at_workload", "Workload", "workload", is_of_study=True)
AT_LOAD = Param("at_load", "Load", "load", is_of_study=True)
AGAINST = Param("against", "Outputs of", "arm", is_of_study=True)
PROMPTS = Param("prompts", "Prompts", "page of prompts", is_of_study=True)
PER = Param("per", "Cost", "kind of cost")
SLO_SHARE = Param("kept", "SLO met by", "share of requests")
#: Text inputs.
PRICE = Param("price", "Price of an hour (USD)", "price")
UTILISATION = Param("utilisation", "Utilisation (%)", "utilisation")
#: How the Explore page draws its runs.
MARK = Param("mark", "Mark", "mark")
X = Param("x", "x", "x axis")
#: The x axis of a scatter plot, which may be a metric too.
SCATTER_X = Param("scatter_x", "x", "x axis")
COLOUR = Param("colour", "Colour", "colour")
FACET = Param("facet", "Panels", "dimension of the panels")
LATENCY = Param("latency", "Latency", "latency")
#: A text input.
PERCENTILE = Param("percentile", "Percentile", "percentile")
#: The y axis of the picture on Home.
YIELD = Param("yield", "Against speed", "y axis")
FRONTIER = Param("frontier", "Two goals", "pair of goals")
#: Its filters, by the name of a dimension of `warehouse.queries.slices`; each may have several values, of the study.
SLICED: dict[str, Param] = {
    "study": Param("study", "Studies", "study"),
    "arm": Param("arms", "Arm", "arm"),
    "dataset": Param("dataset", "Dataset", "dataset"),
    "category": Param("categories", "Category", "category"),
    "concurrency": Param("concurrency", "Concurrency", "concurrency"),
    "load": Param("load", "Load", "load"),
    "method": Param("method", "Method", "method"),
    "draft_model": Param("draft", "Draft model", "draft model"),
    "k": Param("k", "Draft tokens k", "number of draft tokens"),
    "engine": Param("engine", "Engine and version", "engine"),
    "hardware": Param("hardware", "Hardware", "hardware"),
    "target": Param("target", "Target", "target"),
    "origin": Param("origin", "Origin", "origin"),
    "turn": Param("turns", "Turn of the session", "turn"),
    "context": Param("contexts", "Context up to (tokens)", "context"),
    "tag": Param("tags", "Tag of the study", "tag"),
}
VALIDITY = Param("validity", "Validity", "validity")
BEGUN_FROM = Param("from", "Started on or after", "first day")
BEGUN_TO = Param("to", "Started on or before", "last day")
#: Variables of a dashboard, which hold for all of its cards.
FOR_STUDY = Param("for_study", "Study of all cards", "study")
FOR_METRIC = Param("for_metric", "Metric of all cards", "metric")
FOR_LOAD = Param("for_load", "Load of all cards", "load")
#: Filters of the list of jobs; the second and the third are text inputs.
STATE = Param("state", "State", "state")
FIND_JOB = Param("find", "Study or job", "text")
SUBMITTER = Param("by", "Submitted by", "name")
TAG = Param("tag", "Tag", "tag")
#: Tabs (`url_widgets.show_tabs`): each page has its own.
RESULTS_TAB = Param("results_tab", "Table", "table")
COMPARE_TAB = Param("compare_tab", "Table", "table")
COST_TAB = Param("cost_tab", "Table", "table")
ADVICE_TAB = Param("advice_tab", "Table", "table")
EXPLORE_TAB = Param("explore_tab", "Table", "table")
RUN_TAB = Param("run_tab", "Part of the run", "part of a run")
ACCOUNT_TAB = Param("account_tab", "Part of the account", "part of the account")
#: Every parameter of a widget.
ALL = (*(value for value in tuple(globals().values()) if isinstance(value, Param)), *SLICED.values())
OF_STUDY = frozenset(param.key for param in ALL if param.is_of_study or param in SLICED.values())
#: Parameters that links of the navigation leave out: they lead to the list of dashboards, and to the newest jobs.
NOT_IN_NAVIGATION = frozenset((DASHBOARD, BEFORE, FULL, FOR_STUDY.key, FOR_METRIC.key, FOR_LOAD.key))


def first(parameters: Mapping[str, Sequence[str]], param: Param | str, default: str = "") -> str:
    """Return the first value of a parameter in a link, or the default without one."""
    return next(iter(parameters.get(param if isinstance(param, str) else param.key, ())), default)


def number_in(text: str, what: str, is_valid: Callable[[float], bool], unit: str = "") -> float | None:
    """Return the number that a link or a reader gives, maybe with its unit; None for an empty text. Raises UserError
    for any other text, which says that it is not `what`.
    """
    if not text:
        return None
    try:
        number = float(text.removesuffix(unit))
    except ValueError:
        number = math.nan
    if not is_valid(number):
        raise UserError(f"{text!r} is not {what}")
    return number


def job_label(name: str, job_id: str) -> str:
    """Return a job's label in lists and links: its study's name and its id, which begins with the date in UTC."""
    return f"{name}{SEPARATOR}{job_id}"


def job_id_of(label: str) -> str:
    return label.rpartition(SEPARATOR)[2]


def page_file(name: str) -> Path:
    """Return the script of the page `name`, for `st.Page`, `st.page_link` and `st.switch_page`."""
    return _PAGES / name / "page.py"
