"""Which first engine that does not start ends its job."""

from __future__ import annotations

from typing import Any

import pytest

from lab.study import Study
from tests.lab.studies import study
from workers.engine_runtime.hopeless import for_every_arm, sentence

GATED = "the engine ended with exit status 1:\nOSError: You are trying to access a gated repo."
OF_TARGET = "OSError: lab/secret is not a local folder and is not a valid model identifier"
OF_DRAFT = "OSError: lab/head is not a local folder and is not a valid model identifier"
NO_MEMORY = "the engine ended with exit status 1:\ntorch.OutOfMemoryError: CUDA out of memory"
PLAIN: dict[str, Any] = {"name": "plain"}
DRAFTED = {
    "name": "drafted",
    "speculation": {"method": "eagle3", "model": "lab/head", "num_speculative_tokens": 3},
}
SERVER = {"name": "theirs", "engine": "endpoint", "server": {"base_url": "http://127.0.0.1:1"}}


def of(*arms: dict[str, Any]) -> Study:
    return study(target="lab/secret", arms=[arms[0] | {"baseline": True}, *arms[1:]])


@pytest.mark.parametrize(
    ("of_study", "why", "hopeless"),
    [
        (of(PLAIN, DRAFTED), GATED, True),
        (of(PLAIN, DRAFTED), NO_MEMORY, True),
        (of(PLAIN, DRAFTED | {"engine": "sglang"}), GATED, True),
        (of(PLAIN, DRAFTED | {"engine": "sglang"}), NO_MEMORY, False),
        (of(DRAFTED, PLAIN), OF_TARGET, True),
        (of(DRAFTED, PLAIN), OF_DRAFT, False),
        (of(DRAFTED, PLAIN), NO_MEMORY, False),
        (of(PLAIN | {"flags": {"max_model_len": 9}}, DRAFTED), NO_MEMORY, False),
        (of(PLAIN, SERVER), GATED, False),
        (of(SERVER, PLAIN), GATED, False),
    ],
)
def test_a_first_engine_ends_the_job_if_no_arm_that_is_left_can_do_better(
    of_study: Study, why: str, *, hopeless: bool
) -> None:
    assert for_every_arm(of_study, of_study.arms[0], why) is hopeless


def test_the_first_line_has_the_engines_last_words() -> None:
    first, *rest = sentence(of(PLAIN, DRAFTED).arms[0], GATED).splitlines()
    assert first == (
        "no engine of this study can start; the first, of arm 'plain', says: "
        "OSError: You are trying to access a gated repo."
    )
    assert "\n".join(rest) == GATED
