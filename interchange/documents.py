"""An import as a JSON document: the same from the command and from the API."""

from __future__ import annotations

from interchange.store import Import


def import_document(imported: Import) -> dict[str, object]:
    """The jobs, the runs with what is new and what is doubted, the files that were skipped, and those that are
    results and could not be read.
    """
    new = set(imported.new_run_ids)
    runs: list[dict[str, object]] = [
        {"run_id": run.run_id, "tool": run.tool, "tool_version": run.tool_version, "new": run.run_id in new}
        | {"file": run.source.name, "sha256": run.source.sha256, "place": run.place, "doubts": run.doubts}
        | {"target": run.columns["target"]}
        for run in imported.runs
    ]
    runs += [{"run_id": run_id, "tool": "drafthouse", "new": run_id in new} for run_id in imported.taken_in]
    return {"jobs": imported.jobs, "runs": runs, "skipped": imported.skipped, "refused": imported.refused}
