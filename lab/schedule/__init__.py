"""Schedules, which choose a study's next measurement as a pure function of its results so far."""

from lab.schedule.fixed_plan import FixedPlan, SharedPlan
from lab.schedule.schedule import Content, End, Outcome, Schedule, Share, SharedSchedule, Step
from lab.study import Study


def schedule_of(study: Study) -> Schedule:
    """Return the schedule of a study."""
    if study.tune is not None:
        from lab.schedule.tuning import Tuning  # noqa: PLC0415 - imports SciPy: 50 MB that other studies do not need

        return Tuning(study)
    if study.until_decided:
        from lab.schedule.until_decided import UntilDecided  # noqa: PLC0415 - likewise

        return UntilDecided(study)
    if any(load.find is not None for load in study.loads):
        from lab.schedule.capacity_search import CapacitySearch  # noqa: PLC0415 - likewise

        return CapacitySearch(study)
    return FixedPlan(study)


def shared_schedule(study: Study) -> SharedSchedule:
    """Return the schedule that spreads a study over several slots."""
    if study.until_decided:
        from lab.schedule.until_decided import SharedUntilDecided  # noqa: PLC0415 - likewise

        return SharedUntilDecided(study)
    return SharedPlan(study)


__all__ = [
    "Content",
    "End",
    "FixedPlan",
    "Outcome",
    "Schedule",
    "Share",
    "SharedSchedule",
    "Step",
    "schedule_of",
    "shared_schedule",
]
