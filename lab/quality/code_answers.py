"""Turns an answer into a program, for prompts whose answers are code that tests are run on.

The expected answer of such a prompt is the tests: Python with `assert`. An answer that continues the head of a function
stands in the middle of the program, so such an expected answer is the head, the line ANSWER_LINE, and the tests.
"""

from __future__ import annotations

import ast
import re

#: The score that runs tests.
UNIT_TESTS = "unit_tests"
#: Stands in an expected answer where the answer belongs. Without it the answer comes first.
ANSWER_LINE = "# ---- the answer ----"
_FENCE = re.compile(r"^[ \t]*```.*\n?", re.MULTILINE)
_BARE_FENCE = re.compile(r"^[ \t]*```[ \t]*$", re.MULTILINE)


def expected_tests(tests: str, head: str = "") -> str:
    """Return the expected answer of a prompt whose answer has to pass `tests`; the answer may continue `head`."""
    return f"{head.rstrip()}\n{ANSWER_LINE}\n{tests}" if head.strip() else tests


def has_tests(expected: str) -> bool:
    """Return whether an expected answer can be tests: a number or a word cannot, as every program would pass it."""
    return "assert" in expected


def head_and_tests(expected: str) -> tuple[str, str]:
    """Return the head that the answer continues, empty if there is none, and the tests."""
    head, line, tests = expected.partition(f"\n{ANSWER_LINE}\n")
    return (f"{head}\n", tests) if line else ("", expected)


def code_of(answer: str) -> str:
    """Return the code of an answer: its longest fenced block, also one without an end, or all of it.

    A lone closing fence after the code ends it: the prompt is taken to have opened that fence.
    """
    outside, *rest = _FENCE.split(answer)
    if not rest or (len(rest) == 1 and outside.strip() and _BARE_FENCE.search(answer)):
        return outside
    return max(rest[::2], key=len)


def sources(answer: str, head: str) -> tuple[str, ...]:
    """Return the sources to run one after the other before the tests.

    Sources are compiled to choose among them. Deep nesting can crash the compiler: call this in a process that may die.
    An answer that defines the head's function itself follows the head, whose imports and helpers it may use.
    Any other answer continues the head, up to its first line without indentation if the rest is not Python.
    """
    code = code_of(answer)
    if not head:
        return (code,)
    complete = head if compiles(head) else f"{head}    pass\n"
    functions = functions_of(complete)
    if functions and functions[-1] in functions_of(code):
        return complete, code
    whole = head + code
    return (whole if compiles(whole) else head + _body(code),)


def compiles(source: str) -> bool:
    """Return whether the source is Python."""
    try:
        compile(source, "<answer>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def functions_of(source: str) -> list[str]:
    """Return the names of the functions at the top of the source; none if it is not Python."""
    if not compiles(source):
        return []
    return [node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)]


def _body(code: str) -> str:
    """Return the lines before the first unindented one."""
    kept: list[str] = []
    for line in code.splitlines():
        if line.strip() and not line[0].isspace():
            break
        kept.append(line)
    return "\n".join(kept) + "\n"
