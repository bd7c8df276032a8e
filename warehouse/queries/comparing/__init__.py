"""Arms compared: their runs paired, ratios with verdicts, capacities, tunings, and a study's answer."""
