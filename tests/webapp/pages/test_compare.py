"""The Compare page: one study's arms against any of them, and the outputs where they differ."""

from __future__ import annotations

import re
from dataclasses import replace

from host.settings import Settings
from interchange.store import Import, import_paths
from tests.actors import ADMIN
from tests.interchange.sample_files import DETAILED
from tests.lab.studies import study
from tests.webapp.conftest import LITTLE_KNOWN, OpenPage, ReadStudy
from tests.webapp.measured import measure_study
from tests.webapp.page_text import charts, words
from tests.webapp.three_arms import ARMS, OTHERWISE
from warehouse.ingest.service import ingest_all
from warehouse.queries.comparing.across_studies import UNPAIRED
from webapp.charts.theme import INKS
from webapp.pages.compare import figures
from webapp.pages.compare.selection import READINGS, parse
from webapp.shared import published_data


def test_arms_are_compared_with_verdicts_curves_and_outputs_by_link(open_page: OpenPage, settings: Settings) -> None:
    job_id = measure_study(settings, study(arms=ARMS, repeats=3), writes={"n-gram": OTHERWISE})
    app = open_page("compare", job=job_id)
    shown = words(app)
    assert "faster over all cells" in shown
    assert "Output throughput over no draft, geometric mean" in shown
    assert charts(app) == 2 + 1 + 3 + 3  # a heat map an arm, one workload, acceptance, three latencies
    verdicts = next(frame.value for frame in app.dataframe if "verdict" in frame.value)
    assert set(verdicts["arm"]) == {"draft", "n-gram"}
    same = verdicts[verdicts["concurrency"] == 1].set_index("arm")["same"]
    assert same.to_dict() == {"draft": 100.0, "n-gram": 50.0}
    differs = verdicts[verdicts["concurrency"] == 1].set_index("arm")["differs"]
    assert differs["draft"] == ""
    assert re.fullmatch(r"(about )?token \d+", differs["n-gram"])

    app = open_page("compare", job=job_id, candidate="n-gram", against="n-gram")
    assert charts(app) == 1 + 1 + 3 + 3
    texts = [code.value for code in app.code]
    assert "return " in texts
    assert "2  # <b>bold</b> $x$ [a](http://b)" in texts
    assert "bold" not in words(app)

    app = open_page("compare", job=job_id, baseline="draft", metric="Time to first token p50")
    assert "Time to first token p50 over draft" in words(app)
    app = open_page("compare", job=job_id, baseline="gone", candidate="gone too")
    assert "The arm gone in this link does not exist" in words(app)
    assert "The arm gone too in this link does not exist" in words(app)

    assert "on average at most 5 % of the calls in a table are false" in shown
    strict = open_page("compare", job=job_id, reading="no false call in the table")
    assert "with 95 % confidence no call in the table is false" in words(strict)
    assert "at most 5 % of the calls" not in words(strict)

    app = open_page("compare", job=job_id, metric="Acceptance length")
    assert "Acceptance length cannot be compared: no draft or the candidates have no value" in words(app)
    app = open_page("compare", job=job_id, metric="Cost per million output tokens")
    assert "price" in words(app)

    made = figures.figures({"job": (job_id,)}, "light")
    assert [figure.key for figure in made] == ["heat", "break-even", "positions", "ecdf"]
    again = figures.figures({"job": (job_id,)}, "light")
    assert all(first is second for first, second in zip(made, again, strict=True))


def test_every_figure_has_the_intervals_of_the_chosen_reading(read_study: ReadStudy) -> None:
    link = {"job": (read_study(study(arms=ARMS, repeats=3)),)}
    usual, strict = (
        {figure.key: figure.rows for figure in figures.figures(link | {"reading": (reading,)}, "light")}
        for reading in READINGS
    )
    for key in ("heat", "break-even"):
        assert (strict[key]["low"].dropna() < usual[key]["low"].dropna()).all()


def test_a_figure_is_drawn_anew_only_for_what_changes_it(read_study: ReadStudy) -> None:
    selection = parse({"job": (read_study(study(arms=ARMS, repeats=3)),)})
    elsewhere = replace(selection, load=selection.loads[-1])
    keys = [figure.key for figure in figures.figures(selection.view.parameters, "dark")]
    same = [key for key in keys if figures.figure(key, selection, "dark") is figures.figure(key, elsewhere, "dark")]
    assert (keys, same) == (["heat", "break-even", "positions", "ecdf"], ["heat", "break-even"])


def test_a_selection_is_that_of_its_own_link(read_study: ReadStudy) -> None:
    job_id = read_study(study(arms=ARMS, repeats=3))
    link = {"job": (job_id,), "candidate": ("draft",), "heat_rows": ("category",), "reading": (list(READINGS)[1],)}
    selection = parse(link)
    assert selection.view.parameters.items() >= link.items()
    assert parse(selection.view.parameters) == selection


def test_an_arm_that_answers_worse_is_named_before_its_speed(open_page: OpenPage, settings: Settings) -> None:
    loads = [{"max_concurrency": 1, "num_prompts": 60}]
    scored = [{"category": "code", "output_tokens": 8, "score": "json"}]
    job_id = measure_study(
        settings,
        study(arms=ARMS, repeats=2, loads=loads, workloads=scored),
        writes={"no draft": "[1]", "n-gram": "[1]"},
    )
    app = open_page("compare", job=job_id, compare_tab="Quality")
    assert "draft answers worse: score 0.0 % against 50.0 %, -50.0 % [" in words(app)
    assert "n-gram answers" not in words(app)
    (shown,) = [frame.value for frame in app.dataframe if "quality" in frame.value]
    by_arm = shown.set_index("arm")
    assert (by_arm["quality"]["draft"], by_arm["score"].to_dict()) == ("worse", {"draft": 0.0, "n-gram": 50.0})
    drawn = {figure.key: figure for figure in figures.figures({"job": (job_id,)}, "light")}["quality"].rows
    assert drawn.set_index("arm")["points"].to_dict() == {"draft": -50.0, "n-gram": 0.0}
    assert (drawn["low"] <= drawn["points"]).all()


def test_one_repeat_has_no_interval_and_the_page_says_what_to_do(open_page: OpenPage, read_study: ReadStudy) -> None:
    job_id = read_study(study())
    shown = words(open_page("compare", job=job_id))
    assert "One repeat does not show how much runs vary" in shown
    assert "inconclusive over all cells" in shown


def test_imported_runs_without_a_baseline_say_what_a_comparison_needs(
    open_page: OpenPage, imports: dict[str, Import]
) -> None:
    for job_id in (job_id for tool in LITTLE_KNOWN for job_id in imports[tool].jobs):
        shown = words(open_page("compare", job=job_id))
        needs = "Nothing to compare yet: needs valid runs of the baseline" in shown
        assert (needs and "with Baseline ticked" in shown) or "no valid run of an arm" in shown


def test_with_nothing_measured_the_pages_say_how_to_begin(open_page: OpenPage) -> None:
    for page in ("compare", "deploy", "run"):
        assert "No results yet" in words(open_page(page))


def test_arms_of_other_studies_are_compared_by_link_without_verdicts(open_page: OpenPage, settings: Settings) -> None:
    job_id = measure_study(settings, study(arms=ARMS, repeats=3))
    labels = {"study": "theirs", "arm": "spec", "method": "eagle3"}
    (theirs,) = import_paths(settings, [DETAILED], labels=labels, actor=ADMIN).jobs
    ingest_all(settings)
    app = open_page("compare", **{"job": job_id, "with": theirs})
    shown = words(app)
    assert UNPAIRED in shown
    assert "faster" not in shown
    ratios, differences = (frame.value for frame in app.dataframe)
    assert ratios["arm"].tolist() == ["spec · theirs"]
    assert "no interval: one run of the other arm" in ratios["why"].tolist()
    assert differences.set_index("what").loc["hardware", "other"] == "unknown"
    assert "draft, n-gram of" in shown
    (figure,) = figures.figures({"job": (job_id,), "with": (theirs,)}, "light")
    assert figure.key == "across"
    assert figure.rows["ratio"].tolist() == ratios["ratio"].tolist()

    (style,) = figure.styles
    assert style.colour == INKS["light"].arms[1]  # of EAGLE-3, though the file does not say with which k

    turned = open_page("compare", **{"job": job_id, "with": theirs, "baseline": f"spec · theirs · {theirs}"})
    assert set(next(frame.value for frame in turned.dataframe)["arm"]) >= {"draft · small", "n-gram · small"}
    run_id = published_data.results(theirs)["run_id"][0]
    alone = open_page("compare", **{"job": job_id, "with": theirs, "runs": run_id})
    assert "all valid runs are of 'theirs': choose another study" in words(alone)
