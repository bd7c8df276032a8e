"""What a study measures next, as a pure function of what it has measured so far."""

from lab.schedule.fixed_plan import FixedPlan
from lab.schedule.schedule import End, Outcome, Schedule, Step
from lab.study import Study


def schedule_of(study: Study) -> Schedule:
    """Return the schedule that the study asks for."""
    return FixedPlan(study)


__all__ = ["End", "FixedPlan", "Outcome", "Schedule", "Step", "schedule_of"]
