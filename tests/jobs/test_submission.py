"""A study is judged in one pass: by what is known of the lab, read once, whoever wants to know."""

from __future__ import annotations

import sqlalchemy as sa

from jobs.policy import policy_file
from jobs.submission import Context, problems
from lab.roles import Role
from tests.jobs.engines.test_capabilities import H200, report
from tests.workers.engine_runtime.stand_ins import PLAIN
from tests.workers.homes import Home


def test_a_study_of_many_arms_reads_the_lab_once(home: Home) -> None:
    report(home, H200)
    elsewhere = home.settings.model_copy(update={"workers_elsewhere": True})
    arms = [{"name": f"arm {number}", "engine": "gpu-vllm", "flags": {"x": 1}} for number in range(30)]
    study = home.study(arms=[PLAIN, *arms], hardware="h200")
    statements: list[str] = []
    sa.event.listen(home.database, "before_cursor_execute", lambda *execution: statements.append(execution[2]))
    context = Context(elsewhere, home.database)
    found = problems(context, study)
    assert [field for field, _ in found if field.startswith("arms[30]")] == ["arms[30].flags.x"]
    home.settings.engines_file.unlink()
    policy_file(home.settings).unlink()
    assert problems(context, study) == found
    assert sum("FROM workers" in statement for statement in statements) == 1


def test_the_policy_speaks_before_any_engine_is_started(home: Home) -> None:
    """What a plan and the form show after each edit; the rest is found at submission."""
    unknown = {"name": "a", "environment": {"LD_PRELOAD": "x"}, "flags": {"middleware": "a.b"}}
    study = home.study(target="./nothing", arms=[PLAIN, unknown])
    found = problems(Context(home.settings, home.database), study, Role.SUBMITTER, probe_engines=False)
    assert [field for field, _ in found] == ["target", "arms[1].flags.middleware", "arms[1].environment.LD_PRELOAD"]
    everything = problems(Context(home.settings, home.database), study, Role.SUBMITTER)
    assert {field for field, _ in everything} == {field for field, _ in found}


def test_a_missing_list_of_engines_is_a_problem_of_the_study(home: Home) -> None:
    home.settings.engines_file.unlink()
    ((field, sentence),) = problems(Context(home.settings, home.database), home.study(), probe_engines=False)
    assert (field, "does not exist: write it" in sentence) == ("arms", True)


def test_an_address_that_shows_what_it_is_is_refused_without_the_network(home: Home) -> None:
    server = {"name": "theirs", "engine": "endpoint", "server": {"base_url": "http://169.254.169.254/"}}
    found = problems(Context(home.settings, home.database), home.study(arms=[PLAIN, server]), probe_engines=False)
    assert [field for field, _ in found] == ["arms[1].server.base_url"]
