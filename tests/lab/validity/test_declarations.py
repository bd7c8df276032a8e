"""The declarations of the checks, and the page that is made of them."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

from lab.metrics.catalogue import METRICS
from lab.metrics.records import Circumstances, ClientHealth, RequestRecord, RunRecord, TelemetrySample
from lab.study import Frozen, Load, Workload
from lab.validity import ALL, CHECKS, STUDY_CHECKS
from lab.validity.table import TRAPS, declarations, page

PAGE = Path(__file__).parents[3] / "docs" / "checks.md"


def test_the_page_in_docs_is_the_generated_one() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python -m lab.validity.table > docs/checks.md"


def test_every_trap_has_a_check() -> None:
    assert sorted(TRAPS) == list(range(1, 30))
    assert {trap for check in ALL for trap in check.traps} == set(TRAPS)


def test_names_are_snake_case_and_used_once() -> None:
    names = [check.name for check in ALL]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", name) for name in names)


def test_every_declaration_is_in_whole_sentences_and_looks_at_something_that_exists() -> None:
    field_names = {field.name for record in (RequestRecord, TelemetrySample) for field in dataclasses.fields(record)}
    field_names |= {
        *RunRecord.model_fields,
        *(metric.name for metric in METRICS),
        "log",
        "doubts",
        "price_usd_per_hour",
    }
    inner: dict[str, type[Frozen]] = {
        "circumstances": Circumstances,
        "client": ClientHealth,
        "load": Load,
        "workload": Workload,
    }
    for name, model in inner.items():
        field_names |= {f"{name}.{field}" for field in model.model_fields}
    for check in ALL:
        assert set(check.looks_at) - {"arm.speculation", "arm.flags"} <= field_names, check.name
        assert check.traps
        for sentence in (check.why, check.advice):
            assert sentence[0].isupper(), check.name
            assert sentence.endswith("."), check.name
        assert not check.threshold.endswith("."), check.name
        assert "—" not in check.threshold + check.why + check.advice


def test_programs_get_the_same_as_people() -> None:
    declared = json.loads(json.dumps(declarations()))
    assert [check_declared["name"] for check_declared in declared] == [check.name for check in ALL]
    assert [check_declared["scope"] for check_declared in declared] == ["run"] * len(CHECKS) + ["study"] * len(
        STUDY_CHECKS
    )
    assert set(declared[0]) == {"name", "scope", "traps", "severity", "looks_at", "threshold", "why", "advice"}
