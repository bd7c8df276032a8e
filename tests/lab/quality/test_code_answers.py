"""Which program an answer is."""

from __future__ import annotations

import pytest

from lab.quality.code_answers import code_of, expected_tests, has_tests, head_and_tests, sources

HEAD = 'import math\n\ndef area(r):\n    """Of a circle."""\n'
BARE_HEAD = "def area(r):\n"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("    return 1\n", "    return 1\n"),
        ("Sure.\n```python\nx = 1\n```\nThat is it.", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```python\nx = 1\ny =", "x = 1\ny ="),
        ("```sh\npip\n```\nthen\n```python\nx = 1\ny = 2\n```\n", "x = 1\ny = 2\n"),
        ("    return 1\n```\nThis returns 1.", "    return 1\n"),
        ("", ""),
    ],
)
def test_the_code_of_an_answer_is_its_longest_block_or_all(answer: str, code: str) -> None:
    assert code_of(answer) == code


@pytest.mark.parametrize(
    ("answer", "head", "programs"),
    [
        ("x = 1", "", ["x = 1"]),
        ("    return r\n", HEAD, [HEAD + "    return r\n"]),
        ("    return r\nThat is it.\n", HEAD, [HEAD + "    return r\n"]),
        ("    return half(r)\n\ndef half(r):\n    return r / 2\n", HEAD, None),
        ("def area(r):\n    return r\n", HEAD, [HEAD, "def area(r):\n    return r\n"]),
        ("def area(r):\n    return r\n", BARE_HEAD, [f"{BARE_HEAD}    pass\n", "def area(r):\n    return r\n"]),
    ],
)
def test_an_answer_continues_the_head_or_defines_its_function_itself(
    answer: str, head: str, programs: list[str] | None
) -> None:
    assert list(sources(answer, head)) == (programs or [head + answer])


def test_head_and_tests_are_one_text_and_a_number_is_no_test() -> None:
    tests = "def check(f):\n    assert f(1) == 1\n\ncheck(area)\n"
    assert head_and_tests(expected_tests(tests, HEAD)) == (HEAD, tests)
    assert head_and_tests(expected_tests(tests)) == ("", tests)
    assert (has_tests(tests), has_tests("42")) == (True, False)
