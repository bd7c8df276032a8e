"""Comparisons and answers as JSON documents: the same from the command and from the API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

import duckdb
import pandas as pd

from lab.advice.answer import Answer, JudgedPair
from lab.advice.answer_text import sentences
from lab.advice.metric_lines import lines
from lab.advice.next_study import follow_up
from lab.comparison import ANALYSIS_VERSION
from lab.comparison.agreement import Agreement
from lab.comparison.surface import Surface, sentence
from warehouse.queries import results
from warehouse.queries.comparing.comparisons import StudyComparison, break_evens, controls
from warehouse.queries.comparing.quality import ArmQuality, sentences_of

#: The pairs of a `Choice`.
_GROUPS = ("best", "behind", "rejected", "inconclusive")
#: What else is said of outputs: not the single prompts. Token positions count from 0.
_OUTPUTS = tuple(field.name for field in fields(Agreement) if field.name not in ("pairs", "same_share"))


def study_findings(con: duckdb.DuckDBPyConnection, comparison: StudyComparison) -> list[dict[str, str]]:
    """Return the checks' findings about each job as a whole."""
    every = pd.concat([results.findings(con, job_id) for job_id in comparison.jobs])
    chosen = every[every["run_id"].isna()][["severity", "check_name", "sentence", "advice"]]
    return [{str(name): str(value) for name, value in row.items()} for row in chosen.to_dict("records")]


def quality_document(found: Sequence[ArmQuality]) -> list[dict[str, object]]:
    return [{**asdict(each), "sentences": sentences_of(each)} for each in found]


def comparison_document(comparison: StudyComparison, agreed: Sequence[Agreement]) -> dict[str, object]:
    return {
        "jobs": comparison.jobs,
        "metric": comparison.metric,
        "unit": comparison.unit,
        "baseline": comparison.baseline,
        "strict": comparison.strict,
        "controls": {arm: control.sentence for arm, control in controls(comparison).items()},
        "standing": standing_document(comparison),
        "pairs": [
            {
                "workload": pair.cell.workload,
                "pattern": pair.cell.pattern,
                "concurrency": pair.cell.concurrency,
                "arm": pair.candidate.arm,
                "ratio": None if pair.ratio is None else pair.ratio.__dict__,
                "difference": None if pair.comparison.difference is None else pair.comparison.difference.__dict__,
                "verdict": asdict(pair.verdict),
                "basis": pair.comparison.basis,
                "same_output_share": None if agreement.same_share is None else agreement.same_share.__dict__,
                "outputs": {"prompts": len(agreement.pairs), "same": agreement.same}
                | {name: getattr(agreement, name) for name in _OUTPUTS},
                "run_ids": [run.run_id for run in (*pair.baseline.runs, *pair.candidate.runs)],
            }
            for pair, agreement in zip(comparison.pairs, agreed, strict=True)
        ],
        "break_even": [
            {"arm": arm, "workload": workload, "answer": even.answer, "sure": even.sure}
            | {"crossings": [crossing.__dict__ for crossing in even.crossings]}
            for (arm, workload), even in break_evens(comparison).items()
        ],
    }


def standing_document(comparison: StudyComparison) -> dict[str, object]:
    """Return when the verdicts were stored, what they rest on, and which other judgements there are."""
    judging = None if comparison.stored is None else comparison.stored.judging
    return {
        "sentence": comparison.standing,
        "judgement": None if judging is None else judging.judgement_id,
        "as_of": None if judging is None else judging.as_of,
        "analysis_version": ANALYSIS_VERSION if judging is None else judging.analysis_version,
        "changed_because": comparison.changed_because or None,
        "history_jobs": comparison.history_jobs,
        "judgements": [asdict(judged) for judged in comparison.judged],
    }


def contexts_document(surfaces: Mapping[str, Surface]) -> dict[str, object]:
    """Return by arm where it pays, by concurrency and length of context, with a sentence."""
    return {
        arm: {
            "sentence": sentence(found),
            "cells": [
                {
                    "concurrency": cell.concurrency,
                    "context_tokens": cell.context_tokens,
                    "gain": asdict(cell.gain),
                    "acceptance_length": cell.length,
                    "needed_length": None if cell.needed_length is None else asdict(cell.needed_length),
                    "verdict": cell.word,
                    "requests": cell.requests,
                }
                for cell in found.cells
            ],
        }
        for arm, found in surfaces.items()
    }


def answer_document(
    answer: Answer, by_metric: Sequence[Answer] = (), follow_up_s: float | None = None
) -> dict[str, object]:
    """Return an answer with the lines of all metrics and what to measure next, whose forecast is `follow_up_s`."""
    plan = follow_up(answer)
    return {
        "sentences": sentences(answer, follow_up_s).lines,
        "lines": [
            {**asdict(line), "is_decided": line.is_decided, "sentence": line.sentence} for line in lines(by_metric)
        ],
        "follow_up": None if plan is None else {**asdict(plan), "estimated_s": follow_up_s},
        "metric": answer.metric,
        "baseline": answer.baseline,
        "strict": answer.strict,
        "headline": None if answer.headline is None else _pair_dict(answer.headline),
        "choices": [
            {
                "workload": choice.workload,
                "pattern": choice.load,
                "concurrency": choice.concurrency,
                "action": choice.action,
            }
            | {name: [_pair_dict(pair) for pair in getattr(choice, name)] for name in _GROUPS}
            for choice in answer.choices
        ],
        "inconclusive": None if answer.inconclusive is None else asdict(answer.inconclusive),
    }


def _pair_dict(pair: JudgedPair) -> dict[str, object]:
    ratio = pair.ratio
    return {
        "workload": pair.workload,
        "pattern": pair.load,
        "concurrency": pair.concurrency,
        "arm": pair.arm,
        "ratio": None if ratio is None else asdict(ratio),
        "verdict": asdict(pair.verdict),
        "strict_verdict": asdict(pair.strict),
        "basis": pair.comparison.basis,
    }
