"""Series: studies that are queued by a schedule, their nights, and the ways of their alarms."""
