"""What is said of a number once: its name, unit, direction and formula."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A number of a run (or of a request): `formula` in words that a reader can compute it by."""

    name: str
    unit: str
    better: Literal["higher", "lower", "neither"]
    formula: str
    needs: tuple[
        str, ...
    ]  # fields of RequestRecord, RunRecord or TelemetrySample; where one is unknown the number is null

    @property
    def comment(self) -> str:
        direction = "" if self.better == "neither" else f"; {self.better} is better"
        return f"{self.formula} [{self.unit}{direction}]"
