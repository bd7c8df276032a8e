"""No check without a trap that was really fallen into: a new one has to be provoked here, or be named with a reason."""

from __future__ import annotations

from lab.validity import ALL
from tests.validity_for_real import expected, test_client, test_files, test_lies, test_loads, test_studies, test_traps
from tests.workers.slots import test_two_slots

#: What no processor here can be made to show. Their tests are by records (tests/lab/validity).
BY_RECORDS_ALONE = {
    "gpu_throttled": "clocks that heat or the power supply hold back are told by a GPU's driver alone",
    "gpu_clock_fell": "the clock that falls is that of a GPU",
    "gpu_shared": "the other process has to be on a GPU, and the driver has to tell of it",
    "processors_held_back": "a quota is set from outside of a container, and a clock by the processor's heat",
    "starts_differ": "an engine that is another on each start is the processor's chance",
    "host_differs": "it takes a study that is measured by two hosts",
    "rounds_differ": "an engine that is slow for a second of one repeat is the processor's chance",
    "failures_differ": "one failure in a hundred requests takes a run of minutes; prompts_not_answered has a server",
}
PROVOKED = (
    *(check for _, check, *_ in expected.EXPECTED),
    *expected.OF_THEIRS,
    *test_traps.OF_THE_STUDY,
    test_traps.OTHER_TEXT,
    *(check for _, _, check, *_ in test_loads.EXPECTED),
    *(check for check, *_ in test_client.EXPECTED),
    test_client.BUSY,
    *(check for check, *_ in (*test_studies.OF_A_RUN, *test_studies.OF_A_STUDY)),
    test_studies.OF_AN_IDLE_ENGINE,
    test_studies.OF_OUR_OWN_WORK,
    *(check for _, check, *_ in test_files.OF_A_RUN),
    test_files.OF_A_STUDY[0],
    test_two_slots.SLOWER_SLOT,
    *(check for _, check, *_ in test_lies.EXPECTED),
    test_lies.OTHER_PROGRAMS,
)


def test_every_check_is_provoked_for_real_or_by_records_with_a_reason() -> None:
    assert {*PROVOKED, *BY_RECORDS_ALONE} == {check.name for check in ALL}


def test_none_that_is_provoked_is_said_to_need_records() -> None:
    assert not set(PROVOKED) & set(BY_RECORDS_ALONE)
