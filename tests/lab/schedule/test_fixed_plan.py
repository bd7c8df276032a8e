"""A study with a fixed number of repeats measures its plan, whatever comes out."""

from __future__ import annotations

from hypothesis import given

from lab.schedule import End, Outcome, Step, schedule_of
from lab.study import Study
from lab.study.plan import plan
from tests.lab.studies import study
from tests.lab.study.generated import studies


@given(studies)
def test_every_launch_of_the_plan_is_a_step(planned: Study) -> None:
    schedule, launches, outcomes = schedule_of(planned), plan(planned), list[Outcome]()
    for place, launch in enumerate(launches):
        step = schedule.next(outcomes)
        assert step == Step(launch, launches[place + 1 :])
        outcomes += [Outcome(run, launch.index, is_valid=False, error="it failed") for run in launch.runs]
    assert schedule.next(outcomes) == End("complete")


def test_a_launch_that_was_measured_in_part_is_asked_for_again() -> None:
    launches = plan(study())
    done = [Outcome(launches[0].runs[0], 0, is_valid=True)]
    assert schedule_of(study()).next(done) == Step(launches[0], launches[1:])
