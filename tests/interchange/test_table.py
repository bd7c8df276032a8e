"""docs/importing.md says what the importers do."""

from __future__ import annotations

import pytest

from interchange.docs_table import DOCUMENT, updated
from interchange.formats import FORMATS
from lab.metrics.catalogue import METRICS
from warehouse.bundles import imported_run

_EVERY = pytest.mark.parametrize("name", FORMATS)


def test_the_table_in_the_documents_is_that_of_the_code() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == updated(text), "run `python -m interchange.docs_table`"


@_EVERY
def test_every_field_became_a_number_of_a_run_or_says_why_not(name: str) -> None:
    names = {metric.name for metric in METRICS} | set(imported_run.COLUMNS)
    for figure in FORMATS[name].figures:
        assert figure.becomes in names or (figure.becomes is None and figure.remark)


@_EVERY
def test_no_field_is_declared_twice(name: str) -> None:
    paths = [figure.path for figure in FORMATS[name].figures]
    assert len(set(paths)) == len(paths)


def test_nothing_else_is_taken_for_a_result() -> None:
    values: tuple[object, ...] = ({}, [], [1], None, "text", 3, {"benchmarks": 1}, {"metadata": []}, {"successes": 1})
    assert not [value for value in values if any(format_.detect(value) for format_ in FORMATS.values())]


def test_columns_and_metrics_that_do_not_exist_are_a_mistake_of_ours() -> None:
    with pytest.raises(KeyError):
        imported_run.all_columns({"colour": "blue"})
    with pytest.raises(KeyError):
        imported_run.all_metrics({"colour": 1})
