"""Real result files of other tools."""

from __future__ import annotations

from pathlib import Path

SAMPLES = Path(__file__).parent / "samples"
DETAILED = SAMPLES / "vllm-bench" / "spec-code-c4.json"
APPENDED = SAMPLES / "vllm-bench" / "spec-code-append-c4.json"
